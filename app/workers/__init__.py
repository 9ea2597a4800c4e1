"""Worker processes that take queued studies under a lease."""
