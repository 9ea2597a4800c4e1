"""The languages of what readers get: sentences are made in English, and finished ones are translated where they leave."""
