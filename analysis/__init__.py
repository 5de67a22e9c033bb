"""Figures, tables and reports, drawn from the result files of sweeps. Nothing here trains anything."""
