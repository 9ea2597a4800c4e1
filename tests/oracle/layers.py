"""Mixture-of-experts layers in pieces on three streams: alone, fused in pairs, and in whole pipelines.

The product splits this problem in two: layer pairs first, the pipeline of their durations after. `contended_s` does not, its
streams run on at the edge of a step; `two_level` does, with the loops of this package: the difference is the error of the split.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from itertools import combinations

from tests.oracle.event_loop import Durations, Key, Result, makes, needs, receiver_of, simulate
from tests.oracle.schedules import Step, rule_of
from tests.oracle.streams import Piece, Rates, last_end_s, play

# name: (stream, needs in the same layer; none: the input of the layer). A prime marks the backward, _w the weight gradient.
FORWARD: dict[str, tuple[str, tuple[str, ...]]] = {
    "attention": ("compute", ()),
    "router": ("compute", ("attention",)),
    "dispatch_inter": ("inter", ("router",)),
    "dispatch_intra": ("intra", ("dispatch_inter",)),
    "shared": ("compute", ("attention",)),
    "experts": ("compute", ("dispatch_intra",)),
    "combine_intra": ("intra", ("experts",)),
    "combine_inter": ("inter", ("combine_intra",)),
}
BACKWARD: dict[str, tuple[str, tuple[str, ...]]] = {
    "combine_inter'": ("inter", ()),
    "combine_intra'": ("intra", ("combine_inter'",)),
    "shared'": ("compute", ()),
    "experts'": ("compute", ("combine_intra'",)),
    "dispatch_intra'": ("intra", ("experts'",)),
    "dispatch_inter'": ("inter", ("dispatch_intra'",)),
    "experts_w'": ("compute", ("experts'",)),
    "router'": ("compute", ("dispatch_inter'",)),
    "attention'": ("compute", ("router'", "shared'")),
    "shared_w'": ("compute", ("shared'",)),
    "attention_w'": ("compute", ("attention'",)),
}
OUTPUTS = {"F": ("combine_inter", "shared"), "B": ("attention'",)}
# [mindspeed-fb-overlap, fwdbwd.py: transformer_layer_forward_moe_backward_moe_overlaping], what the compute stream runs.
FUSED_ORDER = (
    *("attention", "router", "shared", "experts'", "experts_w'", "experts"),
    *("shared'", "router'", "attention'", "shared_w'", "attention_w'"),
)

Layers = Sequence[
    Mapping[str, float]
]  # of a chunk, first layer first: seconds of each piece by name; one that is not named is free


def pieces_of(
    step: Step, name: Hashable, rank: int, forward: Layers, backward: Layers, fused_order: Sequence[str]
) -> list[Piece]:
    """Pieces of one step in launch order, named (name, "F" or "B", layer, piece); they need nothing from outside."""
    if step.kind == "FB":
        assert len(forward) == len(backward)
        pieces = []
        for layer, times in enumerate(forward):
            behind = len(backward) - 1 - layer
            pair = _layer(name, rank, "F", layer, times, len(forward)) + _layer(
                name, rank, "B", behind, backward[behind], len(backward)
            )
            pieces += sorted(pair, key=lambda piece: fused_order.index(_of(piece)) if _of(piece) in fused_order else -1)
        return pieces
    if step.kind == "F":
        return [piece for layer, times in enumerate(forward) for piece in _layer(name, rank, "F", layer, times, len(forward))]
    pieces = []
    for layer in reversed(range(len(backward))):
        pieces += _layer(name, rank, "B", layer, backward[layer], len(backward))
    if step.kind == "B":
        return [piece for piece in pieces if not _of(piece).endswith("_w'")]
    if step.kind == "W":
        return [piece._replace(needs=()) for piece in pieces if _of(piece).endswith("_w'")]
    return pieces


def _layer(name: Hashable, rank: int, side: str, layer: int, times: Mapping[str, float], num_layers: int) -> list[Piece]:
    before = layer - 1 if side == "F" else layer + 1
    inputs = tuple((name, side, before, piece) for piece in OUTPUTS[side]) if 0 <= before < num_layers else ()
    return [
        Piece(
            (name, side, layer, piece),
            rank,
            stream,
            times.get(piece, 0.0),
            tuple((name, side, layer, need) for need in needed) or inputs,
        )
        for piece, (stream, needed) in (FORWARD if side == "F" else BACKWARD).items()
    ]


def _of(piece: Piece) -> str:
    assert isinstance(piece.name, tuple)
    return str(piece.name[-1])


def alone_s(kind: str, forward: Layers, backward: Layers, rates: Rates, fused_order: Sequence[str] = FUSED_ORDER) -> float:
    """Duration of one step with nothing before or after it."""
    return last_end_s(play(pieces_of(Step(kind, 0, 0, 0, 0), None, 0, forward, backward, fused_order), rates))


def best_fused_order(forward: Layers, backward: Layers, rates: Rates) -> tuple[float, tuple[str, ...]]:
    """Shortest fused step, and its order, over every interleaving of the compute pieces as listed above."""
    ahead = [piece for piece, (stream, _) in FORWARD.items() if stream == "compute"]
    behind = [piece for piece, (stream, _) in BACKWARD.items() if stream == "compute"]
    best: tuple[float, tuple[str, ...]] | None = None
    for places in combinations(range(len(ahead) + len(behind)), len(ahead)):
        f, b = iter(ahead), iter(behind)
        order = tuple(next(f) if place in places else next(b) for place in range(len(ahead) + len(behind)))
        tried = alone_s("FB", forward, backward, rates, order), order
        best = min(best or tried, tried)
    assert best is not None
    return best


def two_level(
    schedule: str,
    pp: int,
    vpp: int,
    num_microbatches: int,
    chunks: Mapping[tuple[int, int], Layers],
    rates: Rates,
    *,
    p2p_s: float = 0.0,
    moe_fb_overlap: bool = False,
    dw_detach: bool = False,
) -> Result:
    """The pipeline of the durations that its steps have alone; ``chunks`` holds the layers of each (rank, chunk)."""

    @cache
    def alone(kind: str, rank: int, chunk: int, behind: int) -> float:
        return alone_s(kind, chunks[rank, chunk], chunks[rank, behind], rates)

    durations = Durations(
        F=lambda rank, chunk, mb: alone("F", rank, chunk, chunk),
        B=lambda rank, chunk, mb: alone("B", rank, chunk, chunk),
        W=lambda rank, chunk, mb: alone("W", rank, chunk, chunk),
        BW=lambda rank, chunk, mb: alone("BW", rank, chunk, chunk),
        FB=lambda rank, chunk, mb, behind, behind_mb: alone("FB", rank, chunk, behind),
    )
    return simulate(
        schedule, pp, vpp, num_microbatches, durations, p2p_s=p2p_s, moe_fb_overlap=moe_fb_overlap, dw_detach=dw_detach
    )


def contended_s(
    schedule: str,
    pp: int,
    vpp: int,
    num_microbatches: int,
    chunks: Mapping[tuple[int, int], Layers],
    rates: Rates,
    *,
    p2p_s: float = 0.0,
    moe_fb_overlap: bool = False,
    dw_detach: bool = False,
    stop_between_steps: bool = False,
) -> float:
    """Step time of all pieces of all ranks played together, messages to other ranks one by one on a stream ``p2p``.

    With ``stop_between_steps`` a rank finishes every piece of a step, then sends, then begins the next, as `two_level` assumes.
    """
    rule = rule_of(schedule, pp, vpp, num_microbatches, moe_fb_overlap=moe_fb_overlap, dw_detach=dw_detach)
    pieces: list[Piece] = []
    made: dict[Hashable, tuple[Hashable, ...]] = {}  # output -> the pieces after which its rank has it
    sent: dict[Hashable, tuple[Hashable, ...]] = {}  # output -> the message after which another rank has it
    for rank in range(pp):
        previous: tuple[Hashable, ...] = ()
        for index, step in enumerate(rule.program(rank)):
            behind = (step.backward_chunk, step.backward_micro_batch) if step.kind == "FB" else (step.chunk, step.micro_batch)
            own = pieces_of(step, (rank, index), rank, chunks[rank, step.chunk], chunks[rank, behind[0]], FUSED_ORDER)
            names = tuple(piece.name for piece in own)
            inputs = {
                "F": needs(rule, rank, Step("F", step.chunk, step.micro_batch)),
                "B": needs(rule, rank, Step("W" if step.kind == "W" else "BW", *behind)),
            }
            for piece in own:
                before = (*needs(rule, rank, step), *previous) if stop_between_steps else tuple(inputs[_side(piece)])
                pieces.append(piece._replace(needs=piece.needs or before))
            for key in makes(rank, step):
                side, last = ("B", 0) if key.backward else ("F", len(chunks[rank, step.chunk]) - 1)
                made[key] = names if stop_between_steps else tuple(((rank, index), side, last, piece) for piece in OUTPUTS[side])
                if receiver_of(rule, key) not in (None, rank):
                    pieces.append(Piece(key, rank, "p2p", p2p_s, made[key]))
                    sent[key] = (key,)
            previous = names

    def after(rank: int, need: Hashable) -> tuple[Hashable, ...]:
        """Pieces after which a rank has what it needs, which is one of them or an output."""
        from_elsewhere = isinstance(need, Key) and need.rank != rank
        return (sent if from_elsewhere else made).get(need, (need,))

    linked = [
        piece._replace(needs=tuple(name for need in piece.needs for name in after(piece.rank, need)))
        if piece.stream != "p2p"
        else piece
        for piece in pieces
    ]
    return last_end_s(play(linked, rates))


def _side(piece: Piece) -> str:
    assert isinstance(piece.name, tuple)
    return str(piece.name[1])
