"""Physics of a training step: NumPy in, NumPy out; no files, no clock, no randomness."""
