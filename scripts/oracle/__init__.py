"""Frameworks run one step of small models on a processor; what they held, sent and multiplied stands beside our counts."""
