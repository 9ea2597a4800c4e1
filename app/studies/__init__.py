"""Stored searches: created, queued, run by workers, and read page by page."""
