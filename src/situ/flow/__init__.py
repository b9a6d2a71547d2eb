"""Operators at work, whoever hosts them: who reads whom, what waits for its time, how far time has come."""
