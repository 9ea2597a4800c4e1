"""One layer and one micro batch: kernels, communication, activations."""
