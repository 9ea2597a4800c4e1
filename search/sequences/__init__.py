"""Assignment of sequences to replicas and micro batches, and the cost of attention over uneven samples."""
