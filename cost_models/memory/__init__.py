"""Device memory of a pipeline rank, part by part and at its peak."""
