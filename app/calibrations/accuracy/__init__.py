"""Errors of predictions for published runs, and the runs to which the shipped constants are fitted."""
