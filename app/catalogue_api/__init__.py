"""The catalogues over REST: models and hardware."""
