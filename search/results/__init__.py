"""The result of a search, and the builder that turns ranked strategies into explained plans."""
