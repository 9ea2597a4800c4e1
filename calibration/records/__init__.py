"""Records of measured runs, of training and of post-training, read from JSON lines."""
