"""Strategies as plans: their record, their JSON form, and the plan that an engineer would try first."""
