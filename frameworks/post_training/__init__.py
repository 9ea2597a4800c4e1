"""Settings of a step of post-training for the frameworks that run it."""
