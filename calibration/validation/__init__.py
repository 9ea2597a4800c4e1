"""Predictions of measured runs, and their errors."""
