"""Checks that a developer runs by hand."""
