"""Calibrations fitted to stored runs."""
