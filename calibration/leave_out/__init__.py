"""Errors of runs that neither the fit nor its priors have seen."""
