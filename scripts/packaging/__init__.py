"""The documentation site, the build hook of wheels, and the archive for machines without a network."""
