"""Verification: a plan's launch file is run by the framework itself, without data, and its counts are held against the price."""
