"""Plans for sequences: lengths that files hold, and what their order costs."""
