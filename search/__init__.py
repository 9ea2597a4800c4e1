"""Search for the best plan: space, enumeration, proof, ranking and explanation."""
