"""Which tensors each virtual stage recomputes or moves to the host: the cheapest choice that fits."""
