"""Post-training: what a step takes, which placement is best, and how far the answers are from measured steps."""
