"""The robust fit of constants to measured step times, and the list of numbers that were tuned on runs."""
