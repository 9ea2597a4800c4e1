"""Capacity checks: a job held against a budget and a baseline."""
