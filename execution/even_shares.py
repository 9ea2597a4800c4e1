"""Rows of tokens that experts in balance get, in whole numbers."""

from __future__ import annotations


def even_shares(rows: int, parts: int) -> list[int]:
    """``rows`` over ``parts`` as evenly as whole numbers allow: neighbours together have their even share, but for one row."""
    return [(part + 1) * rows // parts - part * rows // parts for part in range(parts)]


def splits(rows: int, experts: int, ranks: int, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Rows that a rank sends to each rank, rows that it receives from each, and the latter by its experts.

    Every rank sends ``rows`` to all experts in even shares.
    """
    shares, local = even_shares(rows, experts), experts // ranks
    own = shares[rank * local : (rank + 1) * local]
    return [sum(shares[each * local : (each + 1) * local]) for each in range(ranks)], [sum(own)] * ranks, own
