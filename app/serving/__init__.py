"""Inference jobs: the throughput and latency of a layout of prefill and decode, and the best layout."""
