"""Layouts of inference and the split of devices between prefill and decode."""
