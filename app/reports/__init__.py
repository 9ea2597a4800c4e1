"""Reports: a study as one page for a meeting."""
