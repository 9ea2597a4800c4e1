"""From the step to what is delivered: failures, checkpoints, spares, energy and money. Nothing here knows what a layer is."""
