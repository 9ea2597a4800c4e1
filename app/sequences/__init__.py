"""Plans for sequences: lengths are read from files, and the cost of their order is answered."""
