"""Capacity checks: a job is compared with a budget and a baseline."""
