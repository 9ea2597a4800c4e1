"""What comes from outside, read once: bounds, strict readers, the sentence of an error, hashes of documents."""
