"""Table 1 of the paper, run: one sweep a system."""
