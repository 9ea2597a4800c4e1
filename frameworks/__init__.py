"""Training frameworks that plans can be launched with, one folder each, and the physics rules that apply to all of them."""
