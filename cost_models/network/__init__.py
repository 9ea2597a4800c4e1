"""The network between devices: its tiers, the mapping of process groups to them, and the time of collectives."""
