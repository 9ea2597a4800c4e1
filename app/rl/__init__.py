"""Post-training jobs: the time of a step, the best placement, and the errors against measured steps."""
