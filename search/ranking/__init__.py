"""The order of plans: leaderboard, ranking criteria, ties and Pareto front."""
