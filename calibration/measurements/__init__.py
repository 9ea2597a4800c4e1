"""Kernels and collectives timed on a user's own devices: which, how, in what file, and what the model says of them."""
