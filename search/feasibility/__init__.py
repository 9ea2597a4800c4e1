"""Whether any plan fits, and which changes of a job make one fit."""
