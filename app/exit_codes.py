"""Exit codes of the process."""

from typing import Final

DONE: Final = 0
OUR_FAULT: Final = 1
BAD_INPUT: Final = 2
BUDGET_BROKEN: Final = 3
NOTHING_FEASIBLE: Final = 4
SEARCH_CUT: Final = 5
