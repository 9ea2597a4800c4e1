"""Plans of a study over REST, one at a time."""
