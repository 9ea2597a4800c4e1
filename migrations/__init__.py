"""Schema versions. Each stands alone: it never reads the tables of the running code."""
