"""Call records of a mobile phone provider, with fraud planted in them, and the planted cases beside them.

    python examples/telecom/generate.py out/telecom --calls 1000000 --seed 7

PaNORAMA (section 7) worked on 160 million real records that cannot be passed on. These are made up in their likeness:
antennas in groups around cities, users with habits of their own, prepaid cards that cost nothing, innocent users whose
calls look like fraud, and fraudsters of whom some are careful. The same arguments give the same files.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Flags = NDArray[np.bool_]

FIRST_DAY = np.datetime64("2026-03-02", "s").astype(np.int64)  # a Monday, in seconds since the epoch
DAYS = 14
DAY_S = 24 * 3600
CALLS_PER_USER = 50
PARTS = 8

#: Where a call goes to: the prefixes of the numbers, and how many numbers there are.
NATIONAL, ABROAD, SATELLITE, PREMIUM = range(4)
PREFIXES = (("+49151",), ("+33", "+44", "+48", "+90"), ("+881",), ("+882", "+883", "+979"))
NUMBERS = (0, 5_000, 300, 200)  # of national numbers there is one per user
#: Cents per minute, from and to; a national call costs what the user's contract says.
PRICES = ((0, 0), (40, 150), (300, 600), (150, 400))

#: How many calls begin in each hour of the day, in parts; those of night owls begin twelve hours later.
HOURS = np.array([3, 2, 1, 1, 1, 2, 6, 14, 24, 30, 32, 33, 34, 32, 31, 32, 35, 38, 40, 38, 32, 24, 14, 7], float)

#: Up to which share calls go to national, foreign and satellite numbers, the rest being premium: a business's calls, a
#: night owl's, those of all others.
SHARES = np.array([[0.62, 0.91, 0.95], [0.85, 0.89, 0.89], [0.955, 0.996, 0.9962]])

REGIONS = ("north", "east", "south", "west", "centre")
RULES = ("NightPremium", "PremiumLongExpensive", "TakenOver")
CAREFUL = 6  # every sixth planted case is that of a fraudster who knows the thresholds and stays below


@dataclass(frozen=True)
class Antennas:
    """Antennas lie in groups around cities, large ones and small ones; a city's antennas stand in a row."""

    x: Real
    y: Real
    city_begin: Whole
    city_end: Whole
    city_region: Whole


@dataclass(frozen=True)
class Users:
    """Each user's habits. A duration is lognormal with `log_mean` and `log_deviation` (of seconds).

    Two kinds are innocent and look like fraud: a business confers for hours and calls satellite phones, a night owl
    calls premium numbers at night.
    """

    activity: Real
    log_mean: Real
    log_deviation: Real
    cents_per_minute: Real
    prepaid: Flags
    business: Flags
    night_owl: Flags
    city: Whole
    home: Whole  # antenna

    @property
    def mean_s(self) -> Real:
        return np.exp(self.log_mean + self.log_deviation**2 / 2)

    @property
    def deviation_s(self) -> Real:
        return self.mean_s * np.sqrt(np.expm1(self.log_deviation**2))


@dataclass(frozen=True)
class Calls:
    """One element for each call; `case` is the planted case that it belongs to, or -1."""

    user: Whole
    goes_to: Whole
    start_s: Whole
    duration_s: Whole
    cents: Whole
    case: Whole

    def __getitem__(self, rows: Whole | Flags) -> Self:
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def antennas_around_cities(random: np.random.Generator, antennas: int) -> Antennas:
    cities = max(5, antennas // 40)
    weight = 1.0 / np.arange(1, cities + 1)
    size = 1 + random.multinomial(max(0, antennas - cities), weight / weight.sum())
    centre = random.uniform(0, 500_000, (cities, 2))
    radius = 1_000 * np.sqrt(size)
    city = np.repeat(np.arange(cities), size)
    place = centre[city] + random.normal(0, 1, (len(city), 2)) * radius[city, None]
    end = np.cumsum(size)
    region = np.arange(cities) % len(REGIONS)
    return Antennas(place[:, 0].round(1), place[:, 1].round(1), end - size, end, region)


def users_with_habits(random: np.random.Generator, users: int, antennas: Antennas) -> Users:
    kind = random.random(users)
    business = kind < 0.02
    size = antennas.city_end - antennas.city_begin
    city = random.choice(len(size), users, p=size / size.sum())
    return Users(
        activity=random.gamma(2.0, 1.0, users) + 0.1,
        log_mean=random.normal(np.log(100), 0.5, users) + 0.8 * business,
        log_deviation=random.uniform(0.4, 0.9, users),
        cents_per_minute=random.uniform(5, 25, users),
        prepaid=(random.random(users) < 0.3) & ~business,
        business=business,
        night_owl=kind > 0.99,
        city=city,
        home=random.integers(antennas.city_begin[city], antennas.city_end[city]),
    )


def price(random: np.random.Generator, users: Users, user: Whole, goes_to: Whole, seconds: Whole | Real) -> Whole:
    """What calls cost, in cents. Prepaid cards cause no cost, as in the paper's data."""
    low, high = np.array(PRICES, float).T
    rate = np.where(goes_to == NATIONAL, users.cents_per_minute[user], random.uniform(low[goes_to], high[goes_to]))
    cents = np.rint(rate * seconds / 60).astype(np.int64)
    return np.where(users.prepaid[user], 0, cents)


def one_call_at_a_time(calls: Calls) -> Calls:
    """Calls by user and time, each put off until the one before it is over.

    With d the time that the user's earlier calls take, begin - d is the running maximum of start - d.
    """
    calls = calls[np.lexsort((calls.start_s, calls.user))]
    taken = np.cumsum(calls.duration_s + 1) - (calls.duration_s + 1)
    first = np.searchsorted(calls.user, calls.user)  # the user's first call
    busy = taken - taken[first]
    apart = calls.user * 10**8  # far enough that a user's maximum never reaches into the next user's
    begin = np.maximum.accumulate(calls.start_s - FIRST_DAY - busy + apart) - apart + busy + FIRST_DAY
    return Calls(calls.user, calls.goes_to, begin, calls.duration_s, calls.cents, calls.case)


def ordinary_calls(random: np.random.Generator, users: Users, calls: int) -> Calls:
    user = np.repeat(np.arange(len(users.activity)), random.multinomial(calls, users.activity / users.activity.sum()))
    business, night_owl = users.business[user], users.night_owl[user]
    shares = np.select([business[:, None], night_owl[:, None]], SHARES[:2], SHARES[2])
    goes_to = (random.random((calls, 1)) > shares).sum(axis=1)
    seconds = np.exp(random.normal(users.log_mean[user], users.log_deviation[user]))
    seconds *= np.where(random.random(calls) < np.where(business, 0.02, 0.001), 20, 1)  # somebody talks for hours
    seconds *= np.where(night_owl & (goes_to == PREMIUM), 6, 1)
    duration_s = np.clip(np.rint(seconds), 1, 3 * 3600).astype(np.int64)
    hour = (random.choice(24, calls, p=HOURS / HOURS.sum()) + 12 * night_owl) % 24
    start_s = FIRST_DAY + random.integers(0, DAYS, calls) * DAY_S + hour * 3600 + random.integers(0, 3600, calls)
    cents = price(random, users, user, goes_to, duration_s)
    return one_call_at_a_time(Calls(user, goes_to, start_s, duration_s, cents, np.full(calls, -1)))


def planted_calls(random: np.random.Generator, users: Users, cases_per_rule: int) -> tuple[Calls, Flags]:
    """The calls of all planted cases, numbered rule by rule, and which of the cases are careful."""
    pays = np.flatnonzero(~(users.prepaid | users.business | users.night_owl))
    user = random.choice(pays, len(RULES) * cases_per_rule, replace=False)
    careful = np.arange(len(user)) % CAREFUL == CAREFUL - 1
    kinds = (night_premium, premium_long_expensive, taken_over)
    planted = []
    for number, kind in enumerate(kinds):
        case = np.arange(cases_per_rule) + number * cases_per_rule
        planted.append(kind(random, users, user[case], careful[case], case))
    return planted[0] + planted[1] + planted[2], careful


def burst(
    random: np.random.Generator, user: Whole, case: Whole, begin_s: Whole, goes_to: Whole, minutes: Real, cents: Whole
) -> Calls:
    """Calls one after the other, up to ten minutes apart: a row of the matrices for each case, NaN for no call."""
    duration_s = np.rint(np.nan_to_num(minutes) * 60).astype(np.int64)
    lasts = duration_s + random.integers(30, 600, minutes.shape)
    start_s = begin_s[:, None] + np.cumsum(lasts, axis=1) - lasts
    is_call = ~np.isnan(minutes)
    row, _ = np.nonzero(is_call)
    return Calls(user[row], goes_to[is_call], start_s[is_call], duration_s[is_call], cents[is_call], case[row])


def some_day(random: np.random.Generator, cases: int, from_hour: float, to_hour: float) -> Whole:
    """A time of day on one of the days from the fourth on."""
    day = random.integers(3, DAYS, cases)
    return FIRST_DAY + day * DAY_S + np.rint(random.uniform(from_hour, to_hour, cases) * 3600).astype(np.int64)


def night_premium(random: np.random.Generator, users: Users, user: Whole, careful: Flags, case: Whole) -> Calls:
    """Four to eight calls to premium numbers in one night, more than an hour together; careful ones: less."""
    size = random.integers(4, 9, len(case))
    part = np.where(np.arange(8) < size[:, None], random.uniform(0.7, 1.3, (len(case), 8)), np.nan)
    total = np.where(careful, random.uniform(20, 55, len(case)), random.uniform(65, 180, len(case)))
    minutes = part / np.nansum(part, axis=1, keepdims=True) * total[:, None]
    goes_to = np.full(minutes.shape, PREMIUM)
    cents = price(random, users, user[:, None], goes_to, np.nan_to_num(minutes) * 60)
    return burst(random, user, case, some_day(random, len(case), 0.1, 1.0), goes_to, minutes, cents)


def premium_long_expensive(
    random: np.random.Generator, users: Users, user: Whole, careful: Flags, case: Whole
) -> Calls:
    """A premium call, a call of more than an hour and one of more than 100, in any order; careful ones stay below."""
    cases = len(case)
    long = np.where(careful, random.uniform(45, 59, cases), random.uniform(61, 100, cases))
    minutes = np.stack([random.uniform(5, 15, cases), long, random.uniform(25, 50, cases)], axis=1)
    goes_to = np.tile([PREMIUM, NATIONAL, SATELLITE], (cases, 1))
    cents = price(random, users, user[:, None], goes_to, minutes * 60)
    cents[:, 2] = np.where(careful, random.integers(6_000, 9_900, cases), random.integers(10_500, 25_000, cases))
    order = random.permuted(np.tile(np.arange(3), (cases, 1)), axis=1)
    minutes, goes_to, cents = (np.take_along_axis(a, order, axis=1) for a in (minutes, goes_to, cents))
    return burst(random, user, case, some_day(random, cases, 7, 20), goes_to, minutes, cents)


def taken_over(random: np.random.Generator, users: Users, user: Whole, careful: Flags, case: Whole) -> Calls:
    """A short premium call as a test, then one far too long and one far too expensive for this user, none for others.

    Careful ones keep to what the user usually does.
    """
    cases = len(case)
    far = np.where(careful, random.uniform(0, 1, cases), random.uniform(4, 10, cases))
    long = np.clip(users.mean_s[user] + far * users.deviation_s[user], 60, 55 * 60) / 60
    minutes = np.stack([random.uniform(1, 3, cases), long, random.uniform(3, 10, cases)], axis=1)
    goes_to = np.tile([PREMIUM, NATIONAL, SATELLITE], (cases, 1))
    goes_to[careful, 2] = NATIONAL
    cents = price(random, users, user[:, None], goes_to, minutes * 60)
    return burst(random, user, case, some_day(random, cases, 7, 20), goes_to, minutes, cents)


def all_calls(random: np.random.Generator, users: Users, calls: int, cases_per_rule: int) -> tuple[Calls, Flags]:
    """As many calls as asked for: the planted ones, and ordinary ones that keep clear of them."""
    planted, careful = planted_calls(random, users, cases_per_rule)
    free_from = np.full(len(users.activity), np.iinfo(np.int64).max)
    free_until = np.zeros(len(users.activity), np.int64)
    np.minimum.at(free_from, planted.user, planted.start_s)
    np.maximum.at(free_until, planted.user, planted.start_s + planted.duration_s)
    ordinary = ordinary_calls(random, users, calls)
    end_s = ordinary.start_s + ordinary.duration_s
    ordinary = ordinary[(end_s < free_from[ordinary.user]) | (ordinary.start_s > free_until[ordinary.user])]
    surplus = len(ordinary.user) + len(planted.user) - calls
    if surplus < 0:
        raise ValueError(f"{calls:,} calls are too few for {len(careful)} planted cases: ask for 10,000 or more")
    kept = np.delete(np.arange(len(ordinary.user)), random.choice(len(ordinary.user), surplus, replace=False))
    together = ordinary[kept] + planted
    return together[np.lexsort((together.user, together.start_s))], careful


def numbers_of(users: int) -> tuple[list[str], Whole, Whole]:
    """All phone numbers, the users' first; where the numbers of each destination begin, and how many there are."""
    sizes = (users, *NUMBERS[1:])
    numbers = [
        f"{prefixes[i % len(prefixes)]}{(i * 7919 + 1_234_567) % 10**7:07d}"
        for prefixes, size in zip(PREFIXES, sizes, strict=True)
        for i in range(size)
    ]
    count = np.array(sizes)
    return numbers, np.cumsum(count) - count, count


def decimals(cents: Whole) -> pa.Array:
    """Cents as decimal(10, 2): the 128 bits of each are the number of cents."""
    words = np.stack([cents, np.zeros_like(cents)], axis=1)
    return pa.Array.from_buffers(pa.decimal128(10, 2), len(cents), [None, pa.py_buffer(words)])


def timestamps(seconds: Whole) -> pa.Array:
    return pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC"))


def call_table(random: np.random.Generator, calls: Calls, users: Users, antennas: Antennas) -> pa.Table:
    numbers, begin, count = numbers_of(len(users.activity))
    callee = begin[calls.goes_to] + random.integers(0, count[calls.goes_to])
    callee = np.where(callee == calls.user, (callee + 1) % count[NATIONAL], callee)  # nobody calls themselves
    city = users.city[calls.user]
    nearby = random.integers(antennas.city_begin[city], antennas.city_end[city])
    anywhere = random.integers(0, len(antennas.x), len(city))
    where = random.random(len(city))
    antenna = np.where(where < 0.7, users.home[calls.user], np.where(where < 0.95, nearby, anywhere))
    pool = pa.array(numbers)
    return pa.table(
        {
            "caller": pool.take(pa.array(calls.user)),
            "callee": pool.take(pa.array(callee)),
            "antenna": antenna,
            "x": antennas.x[antenna],
            "y": antennas.y[antenna],
            "started": timestamps(calls.start_s),
            "duration_s": calls.duration_s,
            "cost": decimals(calls.cents),
        }
    )


def customer_table(users: Users, antennas: Antennas) -> pa.Table:
    numbers, _, count = numbers_of(len(users.activity))
    return pa.table(
        {
            "caller": numbers[: count[NATIONAL]],
            "region": pa.array(REGIONS).take(pa.array(antennas.city_region[users.city])),
            "tariff": np.where(users.business, "business", np.where(users.prepaid, "prepaid", "contract")),
        }
    )


def truth_table(calls: Calls, users: int, careful: Flags) -> pa.Table:
    """A row for each planted case: its rule, who, when its first and last call began, how many calls, how careful."""
    cases = np.arange(len(careful))
    planted = calls[calls.case >= 0]
    planted = planted[np.lexsort((planted.start_s, planted.case))]
    first = np.searchsorted(planted.case, cases)
    end = np.searchsorted(planted.case, cases, side="right")
    numbers = pa.array(numbers_of(users)[0])
    return pa.table(
        {
            "rule": pa.array(RULES).take(pa.array(cases // (len(cases) // len(RULES)))),
            "caller": numbers.take(pa.array(planted.user[first])),
            "first": timestamps(planted.start_s[first]),
            "last": timestamps(planted.start_s[end - 1]),
            "calls": end - first,
            "careful": careful,
        }
    )


@dataclass(frozen=True)
class Data:
    calls: pa.Table
    customers: pa.Table
    truth: pa.Table


def generate(calls: int = 1_000_000, seed: int = 7) -> Data:
    """Calls in order of their beginning, all customers, and the planted cases."""
    random = np.random.default_rng(seed)
    number_of_users = max(100, calls // CALLS_PER_USER)
    antennas = antennas_around_cities(random, max(50, number_of_users // 10))
    users = users_with_habits(random, number_of_users, antennas)
    made, careful = all_calls(random, users, calls, cases_per_rule=max(6, number_of_users // 250))
    table = call_table(random, made, users, antennas)
    truth = truth_table(made, number_of_users, careful).replace_schema_metadata(made_with(calls, seed))
    return Data(table, customer_table(users, antennas), truth)


def made_with(calls: int, seed: int) -> dict[bytes, bytes]:
    """What the truth says about the data that it belongs to, so that they need not be made twice."""
    return {b"calls": str(calls).encode(), b"seed": str(seed).encode()}


def write(data: Data, directory: Path) -> None:
    """`calls/part-*.parquet`, `customers.parquet`, and last, for it says that all are there, `truth.parquet`."""
    (directory / "calls").mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, data.calls.num_rows, PARTS + 1).astype(int)
    for part, (begin, end) in enumerate(pairwise(bounds)):
        pq.write_table(data.calls.slice(begin, end - begin), directory / "calls" / f"part-{part}.parquet")
    pq.write_table(data.customers, directory / "customers.parquet")
    pq.write_table(data.truth, directory / "truth.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", default=Path("out/telecom"))
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    data = generate(arguments.calls, arguments.seed)
    write(data, arguments.directory)
    took_s = time.perf_counter() - begin
    print(
        f"{data.calls.num_rows:,} calls of {data.customers.num_rows:,} customers, {data.truth.num_rows} planted cases"
    )
    print(f"in {arguments.directory} ({took_s:.1f} s)")


if __name__ == "__main__":
    main()
