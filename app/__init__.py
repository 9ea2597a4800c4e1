"""Orchestration: command line, model catalogue, reports."""
