"""The request of a search, and its run: options, steps, progress, limits and interrupts."""
