"""The language of answers: English sentences, and their Chinese translation where they leave the program."""
