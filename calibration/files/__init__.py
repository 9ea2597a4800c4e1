"""Calibrations and published errors as files."""
