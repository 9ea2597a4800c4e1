"""Links between devices: tiers, where groups of ranks sit on them, collectives."""
