"""Post-training by reinforcement: lengths of answers, the tasks of a step, where they run, and what waits for what."""
