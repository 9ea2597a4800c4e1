"""Step traces of profilers: where the time of a measured step went, by the parts that the model prices."""
