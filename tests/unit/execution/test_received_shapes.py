"""Shapes of what a rank receives, followed by hand from virtual stage to virtual stage."""

import pytest

from execution.received_shapes import Received

PLAIN, RELAYED, TWICE_RELAYED = [1024, 1, 64], [2048, 1, 64], [3072, 1, 64]
# Two ranks of two chunks: the module on the third of four virtual stages, the head alone on the fourth.
ALONE = [[["embedding", "decoder"], ["decoder", "mtp"]], [["decoder"], ["loss"]]]
# Four ranks of a chunk: two modules on the second, whose outputs the third relays.
EARLY = [[["embedding", "decoder"]], [["decoder", "mtp", "mtp"]], [[]], [["loss"]]]


@pytest.mark.parametrize(
    ("layout", "order", "rank", "forward", "backward"),
    [
        (ALONE, [0, 0, 1, 1], 0, [PLAIN] * 2, [RELAYED] * 2 + [PLAIN] * 2),
        (ALONE, [0, 0, 1, 1], 1, [PLAIN] * 2 + [RELAYED] * 2, [PLAIN] * 2),
        (ALONE, [0, 1, 0, 1], 1, [PLAIN, RELAYED] * 2, [PLAIN] * 2),
        (EARLY, [0, 0], 0, [], [PLAIN] * 2),
        (EARLY, [0, 0], 1, [PLAIN] * 2, [TWICE_RELAYED] * 2),
        (EARLY, [0, 0], 2, [TWICE_RELAYED] * 2, [TWICE_RELAYED] * 2),
        (EARLY, [0, 0], 3, [TWICE_RELAYED] * 2, []),
    ],
)
def test_outputs_of_modules_travel_from_their_stage_on(
    layout: list[list[list[str]]], order: list[int], rank: int, forward: list[list[int]], backward: list[list[int]]
) -> None:
    shapes = Received(layout, order, rank, PLAIN)
    assert list(shapes.forward) == forward
    assert list(shapes.backward) == backward


def test_megatrons_own_names_of_layers_are_understood() -> None:
    layout = [[["LayerType.embedding", "LayerType.mtp"]], [["LayerType.loss"]]]
    assert list(Received(layout, [0], 1, PLAIN).forward) == [RELAYED]
