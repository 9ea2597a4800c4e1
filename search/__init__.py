"""What to try: space, legality, enumeration, ranking, explanation, launch arguments."""
