"""Objectives of a search, one file each: the value of a plan, its lower bound, and the value of a point of a sweep."""
