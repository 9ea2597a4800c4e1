"""Rules that apply to every target: degrees, pipeline, memory, switches."""
