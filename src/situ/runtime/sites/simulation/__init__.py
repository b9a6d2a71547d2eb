"""Sites under a simulated network, clock and disk: the same core and host, everything from one seed."""
