"""The run of a search: steps, progress, limits and interrupts."""
