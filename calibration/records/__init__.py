"""Run records of training and post-training: what was run and what was measured, read from JSON lines."""
