"""The error of a run that counts in full."""

ERROR_SCALE = 0.06  # log error up to which a residual counts in full: the spread of republished runs [runs-fit]
