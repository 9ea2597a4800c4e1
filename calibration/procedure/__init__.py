"""The whole way from runs to a calibration, and what follows from one: a site's factor, the next runs to make."""
