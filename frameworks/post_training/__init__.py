"""Settings of a post-training step, written for the frameworks that run it."""
