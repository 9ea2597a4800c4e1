"""Answers: prices, searches and simulated steps, as documents and as text."""
