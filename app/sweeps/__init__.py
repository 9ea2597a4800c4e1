"""Sweeps: one job at many sizes."""
