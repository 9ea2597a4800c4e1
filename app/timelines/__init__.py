"""The simulated step of one strategy, bar by bar: as columns for the dashboard, as a trace for profilers' viewers."""
