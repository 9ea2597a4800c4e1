"""Hardware profiles, one product a YAML file, and their loader. All values inside are in SI units."""
