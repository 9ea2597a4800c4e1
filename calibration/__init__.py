"""Measured runs: reading them, predicting them, comparing."""
