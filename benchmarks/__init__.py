"""Speed and memory of what users wait for."""
