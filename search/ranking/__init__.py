"""The order of plans: leaderboard, structures, ranking criteria, ties, Pareto front and proof."""
