"""The REST resource of one plan of a study, with its explanation."""
