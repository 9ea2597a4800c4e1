"""The orders that are tried hold the shortest of all that the chains of a merged pair allow."""

from collections.abc import Iterator
from dataclasses import fields
from itertools import permutations

import numpy as np

from cost_models.layer_pairs import AFTER, COMMUNICATION, DURATION, LETTERS, ORDERS, LayerPieces, merged_communication_s

PIECES = [f.name for f in fields(LayerPieces)]
FORWARD = "ASE"
BACKWARDS = ("sefab", "esfab", "seafb")


def merges(first: str, second: str) -> Iterator[str]:
    if not first or not second:
        yield first + second
        return
    yield from (first[0] + rest for rest in merges(first[1:], second))
    yield from (second[0] + rest for rest in merges(first, second[1:]))


def every_order() -> set[str]:
    """Sequences of all pieces, each after what it waits for, that keep an order of compute and one of communication."""
    letter = {piece: key for key, piece in LETTERS.items()}
    sent = [
        "".join(map(letter.__getitem__, order))
        for order in permutations(COMMUNICATION)
        if order.index("dispatch") < order.index("combine") and order.index("combine_back") < order.index("dispatch_back")
    ]
    found = set()
    for chain in BACKWARDS:
        for compute in merges(FORWARD, chain):
            for messages in sent:
                queues, done = [list(compute), list(messages)], ""
                while any(queues):
                    ready = [q for q in queues if q and all(letter[need] in done for need in AFTER[LETTERS[q[0]]])]
                    if not ready:
                        break
                    done += ready[0].pop(0)
                else:
                    found.add(done)
    return found


def played_s(pieces: LayerPieces, order: str) -> np.ndarray:
    end: dict[str, np.ndarray] = {}
    clock = {True: np.zeros(len(pieces.attention)), False: np.zeros(len(pieces.attention))}
    for piece in map(LETTERS.__getitem__, order):
        stream = piece in COMMUNICATION
        start = np.max([clock[stream], *(end[need] for need in AFTER[piece])], axis=0)
        end[piece] = clock[stream] = start + getattr(pieces, DURATION.get(piece, piece))
    return np.maximum(clock[True], clock[False])


def test_no_other_order_is_shorter() -> None:
    rng = np.random.default_rng(7)
    pieces = LayerPieces(**{name: rng.exponential(1.0, 3000) * rng.choice([0.1, 1.0, 3.0], 3000) for name in PIECES})
    orders = every_order()
    assert set(ORDERS) < orders
    assert len(orders) > 400
    shortest = np.min([played_s(pieces, order) for order in orders], axis=0)
    total = pieces.compute_s + merged_communication_s(pieces, 0.0)
    np.testing.assert_allclose(total, np.maximum(shortest, pieces.compute_s), rtol=1e-2)
    assert np.mean(np.isclose(total, shortest, rtol=1e-12)) > 0.999


def test_worked_pair() -> None:
    # Compute 1 + 1 + 1 + 1 + .5 + 1 = 5.5 s; two seconds of messages fit beside it.
    one, half = np.array([1.0]), np.array([0.5])
    none = np.array([0.0])
    pieces = LayerPieces(one, one, none, half, half, one, one, none, half, one)
    assert merged_communication_s(pieces, 0.0)[0] == 0.0
    assert merged_communication_s(pieces, 0.25)[0] == 0.5  # what is hidden slows the compute beside it
