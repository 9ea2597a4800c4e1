"""Comparison of a measured step, from a profiler's trace, with the predicted step."""
