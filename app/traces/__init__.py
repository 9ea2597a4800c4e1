"""A measured step, from a profiler's trace, beside the predicted one."""
