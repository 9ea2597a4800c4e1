"""Pipeline schedules: one file each, with all rules of the schedule."""
