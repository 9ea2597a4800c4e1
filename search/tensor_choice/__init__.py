"""Which tensors each virtual stage computes again or moves to the host: the cheapest choice that fits."""
