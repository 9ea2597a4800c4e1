"""Megatron-LM, releases 0.12 and 0.19."""
