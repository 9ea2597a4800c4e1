"""The exhaustive search: every strategy is priced or ruled out by a bound, and the best plan is proved."""
