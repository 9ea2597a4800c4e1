"""Layouts, placements and splits of devices for post-training."""
