"""MindFormers on MindSpore."""
