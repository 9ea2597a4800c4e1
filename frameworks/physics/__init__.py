"""Rules that bind every target: degrees, pipeline, memory, switches."""
