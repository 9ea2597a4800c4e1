"""Which sequence goes to which replica and micro batch, and what attention over uneven samples costs."""
