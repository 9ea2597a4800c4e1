"""Jobs: what to train, on which devices, with which software; read, resolved, described."""
