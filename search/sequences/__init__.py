"""Which sequence goes to which replica and micro batch: what attention over uneven samples costs, and what order recovers."""
