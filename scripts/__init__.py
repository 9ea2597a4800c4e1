"""Tools of this repository. No script is part of the product; `make` calls most of them."""
