"""Case studies of published trainings: their figures, and the pages that show them."""
