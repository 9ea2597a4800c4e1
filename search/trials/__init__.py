"""Trials of a sampler: the choices that it is offered, its proposals, and the record of each evaluation."""
