"""Cluster data, one product a YAML file, and its loader; SI units only inside."""
