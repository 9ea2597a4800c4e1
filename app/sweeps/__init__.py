"""One job at many sizes."""
