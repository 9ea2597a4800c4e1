"""Jobs: the model to train, the devices and the software. Every field is read, checked and resolved here."""
