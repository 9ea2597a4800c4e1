"""A study as one page for a meeting."""
