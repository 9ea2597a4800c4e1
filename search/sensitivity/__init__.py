"""How the step time of a plan depends on each number that it was priced with."""
