"""The orders that are tried hold the shortest of all that the chains of a merged pair allow."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest

from cost_models.layer.pairs import AFTER, COMMUNICATION, FORWARD, LETTERS, ORDERS, compute_s, merged_communication_s
from tests.oracle.layers import best_fused_order
from tests.oracle.streams import pairwise

MOE = set(AFTER)
DENSE = {"attention", "experts", "attention_back", "experts_back", "attention_weights", "experts_weights"}
BACKWARD = MOE - set(FORWARD)
MEETINGS = {
    "moe with moe": MOE,
    "dense with moe": DENSE & set(FORWARD) | BACKWARD,
    "moe with dense": set(FORWARD) | DENSE & BACKWARD,
}
FORWARD_CHAIN = "ASE"
BACKWARD_CHAINS = ("sefab", "esfab", "seafb")
ORACLE = {  # names of the oracle's pieces; its routers and its messages inside nodes are free here
    "attention": "attention", "shared": "shared", "dispatch": "dispatch_inter", "experts": "experts", "combine": "combine_inter",
    "combine_back": "combine_inter'", "shared_back": "shared'", "experts_back": "experts'", "dispatch_back": "dispatch_inter'",
    "attention_back": "attention'", "experts_weights": "experts_w'", "attention_weights": "attention_w'",
}  # fmt: skip


def merges(first: str, second: str) -> Iterator[str]:
    if not first or not second:
        yield first + second
        return
    yield from (first[0] + rest for rest in merges(first[1:], second))
    yield from (second[0] + rest for rest in merges(first, second[1:]))


def every_order(pieces: set[str]) -> set[str]:
    """Sequences of the pieces, each after what it waits for, that keep an order of compute and one of communication."""
    letter = {piece: key for key, piece in LETTERS.items()}
    present = {letter[piece] for piece in pieces}
    sent = {
        "".join(letter[piece] for piece in order if piece in pieces)
        for order in permutations(COMMUNICATION)
        if order.index("dispatch") < order.index("combine") and order.index("combine_back") < order.index("dispatch_back")
    }
    found = set()
    for chain in {"".join(c for c in chain if c in present) for chain in BACKWARD_CHAINS}:
        for compute in merges("".join(c for c in FORWARD_CHAIN if c in present), chain):
            for messages in sent:
                queues, done = [list(compute), list(messages)], ""
                while any(queues):
                    needed = {q[0]: [letter[need] for need in AFTER[LETTERS[q[0]]]] for q in queues if q}
                    ready = [q for q in queues if q and all(need in done for need in needed[q[0]] if need in present)]
                    if not ready:
                        break
                    done += ready[0].pop(0)
                else:
                    found.add(done)
    return found


def played_s(pieces: dict[str, np.ndarray], order: str) -> np.ndarray:
    end: dict[str, np.ndarray] = {}
    clock = {True: np.zeros(len(pieces["attention"])), False: np.zeros(len(pieces["attention"]))}
    for piece in map(LETTERS.__getitem__, order):
        stream = piece in COMMUNICATION
        start = np.max([clock[stream], *(end[need] for need in AFTER[piece] if need in end)], axis=0)
        end[piece] = clock[stream] = start + pieces[piece]
    return np.maximum(clock[True], clock[False])


def streams(order: str) -> tuple[str, str]:
    """What either stream runs, which decides how long an order takes."""
    sent = "".join(letter for letter in order if LETTERS[letter] in COMMUNICATION)
    return "".join(letter for letter in order if letter not in sent), sent


def drawn(pieces: set[str], n: int) -> dict[str, np.ndarray]:
    """Random durations; where both layers have experts, exchanges take as long in the backward, as equal layers' do."""
    rng = np.random.default_rng(7)
    found = {name: rng.exponential(1.0, n) * rng.choice([0.1, 1.0, 3.0], n) for name in AFTER if name in pieces}
    return found if pieces != MOE else found | {f"{name}_back": found[name] for name in ("combine", "dispatch")}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_no_other_order_is_shorter(meeting: str) -> None:
    pieces, orders = drawn(MEETINGS[meeting], 3000), every_order(MEETINGS[meeting])
    tried = {streams("".join(letter for letter in order if LETTERS[letter] in pieces)) for order in ORDERS}
    assert tried < {streams(order) for order in orders}
    shortest = np.min([played_s(pieces, order) for order in orders], axis=0)
    total = compute_s(pieces) + merged_communication_s(pieces, 0.0)
    np.testing.assert_allclose(total, np.maximum(shortest, compute_s(pieces)), rtol=5e-2 if meeting == "moe with moe" else 1e-12)
    assert np.mean(np.isclose(total, shortest, rtol=1e-12)) > 0.999


@pytest.mark.parametrize("meeting", MEETINGS)
def test_no_pair_is_longer_than_the_oracles_best(meeting: str) -> None:
    # Whose backward keeps one order of its own compute, and whose exchanges start as they can.
    pieces = drawn(MEETINGS[meeting], 8)
    total = compute_s(pieces) + merged_communication_s(pieces, 0.0)
    for column, found_s in enumerate(total):
        layer = {ORACLE[name]: float(seconds[column]) for name, seconds in pieces.items()}
        assert found_s <= best_fused_order([layer], [layer], pairwise({}))[0] * (1 + 1e-2)


def test_worked_pair() -> None:
    # Compute 1 + 1 + 1 + 1 + .5 + 1 = 5.5 s; two seconds of messages fit beside it.
    one, half = np.array([1.0]), np.array([0.5])
    none = np.array([0.0])
    pieces = {
        "attention": one, "experts": one, "shared": none, "dispatch": half, "combine": half, "attention_back": one,
        "experts_back": one, "shared_back": none, "attention_weights": half, "experts_weights": one, "combine_back": half,
        "dispatch_back": half,
    }  # fmt: skip
    assert merged_communication_s(pieces, 0.0)[0] == 0.0
    assert merged_communication_s(pieces, 0.25)[0] == 0.5  # what is hidden slows the compute beside it


def test_worked_dense_forward_with_a_moe_backward() -> None:
    # The gradient of the combine, 2 s, travels beside the dense layer's attention (1) and MLP (1); then the experts' input
    # gradient (1), whose dispatch (2) has their weight gradient (1) beside it and 1 s of nothing, before attention's gradients.
    seconds = {
        "attention": 1.0, "experts": 1.0, "combine_back": 2.0, "shared_back": 0.0, "experts_back": 1.0, "dispatch_back": 2.0,
        "experts_weights": 1.0, "attention_back": 1.0, "attention_weights": 1.0,
    }  # fmt: skip
    pieces = {name: np.array([value]) for name, value in seconds.items()}
    assert merged_communication_s(pieces, 0.0)[0] == 1.0
    assert merged_communication_s(pieces, 0.5)[0] == 1.0 + 0.5 * 3.0
