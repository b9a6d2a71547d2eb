"""The papers' experiments, again: one command per paper, our curves beside its claims."""
