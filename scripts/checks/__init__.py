"""Checks of layer placement, coverage and commits."""
