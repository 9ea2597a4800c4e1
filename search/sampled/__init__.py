"""A search that prices only the strategies that a sampler proposes."""
