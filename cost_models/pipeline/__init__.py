"""Stages and the order of their tasks; the closed form of a step."""
