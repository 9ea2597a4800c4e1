"""What is built and shipped: the documentation site, the wheel's hook, the archive for machines without a network."""
