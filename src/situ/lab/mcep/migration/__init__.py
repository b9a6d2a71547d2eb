"""Where the operators of a consumer who moves run, step by step (MCEP, sections 5.5 and 6.3)."""
