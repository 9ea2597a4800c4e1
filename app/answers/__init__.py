"""Answers about a job: prices, searches and simulated steps, as documents and as tables."""
