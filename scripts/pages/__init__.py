"""Reference pages that follow from the sources, and the pictures of the dashboard."""
