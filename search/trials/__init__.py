"""Trials of a sampler: the choices that it is asked for, its proposals, and the record of each evaluation."""
