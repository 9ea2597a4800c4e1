"""Kernel timings on the user's devices. No other code knows PyTorch, which is not a dependency."""
