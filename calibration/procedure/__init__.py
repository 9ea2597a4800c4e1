"""The way from runs to a calibration: the free constants, the fit, its errors, a site's time factor, and next runs."""
