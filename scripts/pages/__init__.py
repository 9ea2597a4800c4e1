"""Reference pages that follow from the sources."""
