"""Sites: what is pushed to an operator and what it pulls, and a simulation that counts it."""
