"""Step traces of profilers: the time of a measured step by the parts that the model prices."""
