"""Explanations of a plan: what bounds it, how it differs from others, and what one change would gain."""
