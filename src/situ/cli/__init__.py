"""The command line: `situ check`, `explain`, `run` and `bench`. Each command is a file of its name."""
