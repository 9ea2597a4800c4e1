"""Stored searches: created, run by workers, read back page by page."""
