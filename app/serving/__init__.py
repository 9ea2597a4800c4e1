"""Inference: what a layout of prefill and decode gives, and which is best."""
