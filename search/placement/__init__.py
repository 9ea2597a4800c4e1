"""Where the layers of each strategy lie: placements worth comparing, and the best of them as columns."""
