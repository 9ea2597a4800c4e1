"""What the process returns."""

DONE = 0
OUR_FAULT = 1
BAD_INPUT = 2
NOTHING_FEASIBLE = 4
SEARCH_CUT = 5
