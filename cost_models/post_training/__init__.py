"""Post-training by reinforcement learning: lengths of answers, the tasks of a step, their placement and their order."""
