"""Where the layers of each strategy are placed: candidate placements, and the best of them as columns."""
