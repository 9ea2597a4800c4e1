"""Plans for experts: counts that logs hold, placement maps, and what a plan says."""
