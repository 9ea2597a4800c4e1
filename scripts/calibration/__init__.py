"""The shipped calibrations: their fit, and errors with groups of runs left out."""
