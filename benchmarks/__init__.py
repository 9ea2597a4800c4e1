"""Measurements of the time and memory that users wait for."""
