"""Measured runs: read, predicted, and turned into calibrations."""
