"""Kernels and collectives timed on a user's devices: the cases, timing, files, and predicted times."""
