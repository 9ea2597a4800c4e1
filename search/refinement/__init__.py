"""Plans beyond the lattice: recompute by rank, other micro batches and layouts around the best plans, tried by Optuna."""
