"""Input from outside and text for readers: bounds, strict readers, sentences, quantities, error messages, hashes of documents."""
