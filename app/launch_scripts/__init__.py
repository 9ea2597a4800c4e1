"""Launch scripts read back: what they train and how, what it costs, and what to change."""
