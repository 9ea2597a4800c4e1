"""Input from outside: bounds, strict readers, error messages, and hashes of documents."""
