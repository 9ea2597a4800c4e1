"""Placement of experts: loads over steps, their forecast, and which moves and copies pay."""
