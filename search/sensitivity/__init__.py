"""Sensitivity of a plan's step time to each number that it was priced with."""
