"""The common part of DualPipe and DualPipeV: the eight steps of the released generators for two chunks on a rank [dualpipe]."""

from __future__ import annotations

from cost_models.schedules.tasks import Pass, Task


class _RankOrder:
    """Appends tasks in order. It counts the passes of both chunks and keeps the weight gradients that wait.

    ``mirrored`` swaps the two chunks: the second half of DualPipe's ranks counts the stream that starts there as the first.
    """

    def __init__(self, *, mirrored: bool) -> None:
        self.tasks: list[Task] = []
        self._mirrored = mirrored
        self._forwards = [0, 0]
        self._backwards = [0, 0]
        self._waiting: list[Task] = []

    def _next(self, counts: list[int], phase: int) -> tuple[int, int]:
        chunk = phase ^ self._mirrored
        counts[chunk] += 1
        return chunk, counts[chunk] - 1

    def forward(self, phase: int) -> None:
        self.tasks.append(Task(Pass.FORWARD, *self._next(self._forwards, phase)))

    def backward(self, phase: int, *, split: bool = False) -> None:
        place = self._next(self._backwards, phase)
        if split:
            self._waiting.append(Task(Pass.WEIGHT_GRADIENT, *place))
        self.tasks.append(Task(Pass.INPUT_GRADIENT if split else Pass.BACKWARD, *place))

    def weight_gradient(self) -> None:
        self.tasks.append(self._waiting.pop(0))

    def finished(self) -> tuple[Task, ...]:
        return tuple(self.tasks + self._waiting)

    def pair(self, forward_phase: int, backward_phase: int, *, merged: bool) -> None:
        if not merged:
            self.forward(forward_phase)
            self.backward(backward_phase)
            return
        forward = self._next(self._forwards, forward_phase)
        self.tasks.append(Task(Pass.PAIR, *forward, *self._next(self._backwards, backward_phase)))


def rank_order(
    distance: int, span: int, passes: int, *, mirrored: bool, merged: bool, detached: bool, turns_here: bool
) -> tuple[Task, ...]:
    """Order of one rank.

    ``distance``: ranks between the rank and the end that feeds it. ``span``: ranks from an end to the rank at which the stream
    turns or crosses the other stream. ``detached``: the cool-down splits its backwards. ``turns_here``: the rank is the last of
    its span.
    """
    after = span - distance - 1
    order = _RankOrder(mirrored=mirrored)
    for _ in range(2 * after):
        order.forward(0)
    for _ in range(distance + 1):
        order.forward(0)
        order.forward(1)
    for _ in range(after):
        order.backward(1, split=True)
        order.weight_gradient()
        order.forward(1)
    for i in range(passes - 2 * span + distance + 1):
        # The first pair of the rank in the middle runs apart, which shortens the bubble [dualpipe, dualpipe.py].
        order.pair(0, 1, merged=merged and not (i == 0 and turns_here))
        order.pair(1, 0, merged=merged)
    for _ in range(after):
        order.backward(1)
        order.pair(1, 0, merged=merged)
    half = (distance + 1) // 2
    for i in range(distance + 1):
        order.backward(1, split=detached and (i > half or (i == half and distance % 2 == 1)))
        order.backward(0, split=detached and i >= half)
    for _ in range(after):
        if detached:
            order.weight_gradient()
        order.backward(0, split=detached)
    return order.finished()
