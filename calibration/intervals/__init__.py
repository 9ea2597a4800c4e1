"""Intervals of predicted times and peaks, from errors on runs that were left out."""
