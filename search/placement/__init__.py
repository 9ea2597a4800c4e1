"""Candidate placements of each strategy's layers, and the best of them as columns."""
