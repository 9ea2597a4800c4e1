"""A traced run as a record that ``meshplan calibrate`` reads."""
from __future__ import annotations
def add_record(*a): return []
