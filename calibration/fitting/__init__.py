"""The robust fit of constants to measured step times, and every number that was tuned on runs."""
