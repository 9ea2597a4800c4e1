"""Where parts of a search are worked on: in this process, in others of this machine, or on those of an engine."""
