"""Properties that runs share, and the sets of runs that a split leaves out together."""
