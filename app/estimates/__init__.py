"""Estimates over REST: the price of one strategy, or of thousands."""
