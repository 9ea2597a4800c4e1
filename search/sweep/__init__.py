"""One job at many sizes: the best plan of each point, and what the points say together."""
