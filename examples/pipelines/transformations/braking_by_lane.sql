CREATE MATERIALIZED VIEW braking_by_lane AS
SELECT lane, count(*) AS times, max(drop) AS hardest
FROM hard_braking
GROUP BY lane
