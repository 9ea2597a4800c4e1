"""The strategies that a search may try: limits, values of each dimension, and the enumeration of all of them."""
