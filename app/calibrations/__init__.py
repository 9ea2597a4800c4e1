"""Calibrations of a user: fitted to stored runs, listed, and chosen for a job."""
