"""Plans beyond the lattice: changes of the best plans, proposed by Optuna."""
