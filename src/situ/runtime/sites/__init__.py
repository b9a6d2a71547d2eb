"""Sites: what is pushed to an operator, and what it pulls."""
