"""Throughput of a plan on a site with failures: tokens a day, days, energy and cost."""
