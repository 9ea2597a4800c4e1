"""What every endpoint shares: problems, bodies, keys, pages, entity tags, limits, logs."""
