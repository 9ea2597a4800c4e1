"""Delivered rate of a job: failures, checkpoints, spares, energy and money. No module here knows about layers."""
