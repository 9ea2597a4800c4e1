"""Measured runs: predicted as they come in, and kept for calibrations."""
