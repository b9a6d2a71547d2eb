"""EdgeCEP's experiments, and the scenarios of its Figure 4, whose parameters the paper lost."""
