"""A whole training step: groups of strategies priced together, composed in closed form, once-a-step work, views of it."""
