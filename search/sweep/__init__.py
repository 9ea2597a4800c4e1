"""One job at many sizes: the best plan of each point, and how it scales."""
