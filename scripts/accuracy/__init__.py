"""The accuracy page: its figures, plots and text."""
