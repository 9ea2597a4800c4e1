"""Placements of layers and MTP modules that a target can express, as limits for the solver and for the target's rule.

A placement keeps the order of the model: layers of each virtual stage, ``[chunk][stage]``, and the number of virtual stages
from the MTP modules to the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Literal

from cost_models.shapes.strategy import LayerLayout
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.rule import Rule, layout_of, layout_violates, up_to


@dataclass(frozen=True)
class Placements:
    """The placements that a target can express: all within every limit; without limits, all that keep the model's order.

    ``fewest``: least layers of each virtual stage. ``even``: only the few layouts of ``shapes``. ``mtp``: the modules run with
    the head, or also in the last chunk of a rank other than the first, or anywhere after the layers. ``early_moe``: the first MoE
    layer is on one of the first ``vpp`` virtual stages of a pipeline. ``full_but_last``: all virtual stages have equally many
    layers, except the last, which can have fewer.
    """

    fewest: int = 0
    even: bool = False
    mtp: Literal["beside the head", "last chunk", "anywhere"] = "beside the head"
    early_moe: bool = False
    full_but_last: bool = False

    def most_mtp_before_head(self, pp: int, vpp: int) -> int:
        """Maximum number of virtual stages from the MTP modules to the head, if no layer comes after them."""
        return {"beside the head": 0, "last chunk": max(pp - 2, 0), "anywhere": pp * vpp - 1}[self.mtp]

    def shapes(self, num_layers: int, pp: int, vpp: int) -> Iterator[LayerLayout]:
        """All layouts of an ``even`` target; some occur twice.

        Chunks of a rank are equal, and so are the ranks between the first and the last. Or all virtual stages are equal, and
        the first and the last can lack a layer in exchange for the embedding or the loss.
        """
        each, rest = divmod(num_layers, vpp)
        if not rest:
            for inner in range(1 if pp > 2 else 0, each + 1 if pp > 2 else 1):
                ends = each - inner * (pp - 2) if pp > 1 else each
                if ends < 1:
                    break
                for first in range(1, ends) if pp > 1 else (ends,):
                    row = (first, *[inner] * (pp - 2), ends - first) if pp > 1 else (first,)
                    yield (row,) * vpp
        stages = pp * vpp
        for embedding, loss in product((0, 1), repeat=2) if stages > 1 else ():
            slots, rest = divmod(num_layers + embedding + loss, stages)
            if not rest and slots >= 1:
                counts = [slots - embedding, *[slots] * (stages - 2), slots - loss]
                yield tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))

    def expressible(self, layout: LayerLayout, mtp_before_head: int, model: ModelShape) -> bool:
        """Whether the target can express a placement."""
        return not self.refusal(layout, mtp_before_head, model)

    def refusal(self, layout: LayerLayout, mtp_before_head: int, model: ModelShape) -> str:
        """The limit that a placement breaks, with its numbers; empty if it keeps all."""
        pp, vpp = len(layout[0]), len(layout)
        counts = [layers for row in layout for layers in row]
        if min(counts) < self.fewest:
            at = counts.index(min(counts))
            return Sentence(
                "virtual stage {} of {} holds {} layers (the largest {})", at + 1, len(counts), min(counts), max(counts)
            )
        if self.even and not (ranks_are_alike(layout) or ends_lack_a_layer(layout)):
            ranks = [sum(row[i] for row in layout) for i in range(pp)]
            middle = ranks[1:-1] or ranks
            return Sentence(
                "{} layers over pp {} and vpp {} put {} on the first rank, {} to "
                "{} on the middle ones and {} on the last, in chunks of {} to {}",
                sum(counts),
                pp,
                vpp,
                ranks[0],
                min(middle),
                max(middle),
                ranks[-1],
                min(counts),
                max(counts),
            )
        most = self.most_mtp_before_head(pp, vpp)
        if mtp_before_head > most:
            return Sentence("mtp_before_head is {} over pp {} and vpp {}, which leave {}", mtp_before_head, pp, vpp, up_to(most))
        if self.early_moe and model.moe is not None and pp > 1:
            at, dense = 0, model.moe.num_leading_dense_layers
            while sum(counts[: at + 1]) <= dense < sum(counts):
                at += 1
            if at >= vpp:
                return Sentence(
                    "the first MoE layer, behind {} dense ones, is on virtual stage {}, and vpp is {}", dense, at + 1, vpp
                )
        if self.full_but_last and not {*counts[:-1]} <= {max(counts)}:
            before = counts[:-1] or counts
            return Sentence(
                "virtual stages before the last hold {} to {} layers, and the last {}", min(before), max(before), counts[-1]
            )
        return ""

    @property
    def requirement(self) -> str:
        """All limits in words."""
        limits = (
            (self.fewest > 0, Sentence("every virtual stage holds {} layer", self.fewest)),
            (
                self.even,
                Sentence(
                    "all pipeline ranks but the first and the last hold equally many layers, and a rank's chunks are "
                    "equal; or all "
                    "virtual stages are, where the first and the last may lack the layer that embedding or loss is counted as"
                ),
            ),
            (self.mtp == "beside the head", Sentence("MTP layers run beside the head")),
            (
                self.mtp == "last chunk",
                Sentence("MTP layers run in a rank's last chunk, and not on the first rank unless the head does"),
            ),
            (self.early_moe, Sentence("the first MoE layer is on one of the first vpp virtual stages")),
            (self.full_but_last, Sentence("no-op layers are on the last virtual stage alone")),
        )
        return joined("; ", (words for holds, words in limits if holds))


def ranks_are_alike(layout: LayerLayout) -> bool:
    """Whether ranks between the first and the last have equally many layers, and the chunks of each rank too, at least one."""
    ranks = [{row[i] for row in layout} for i in range(len(layout[0]))]
    return all(len(chunks) == 1 and 0 not in chunks for chunks in ranks) and len(set(map(min, ranks[1:-1]))) <= 1


def ends_lack_a_layer(layout: LayerLayout) -> bool:
    """Whether all virtual stages have equally many layers, except that the first and the last may have one fewer."""
    counts = [layers for row in layout for layers in row]
    slots = max(counts)
    return len(counts) > 1 and {*counts[1:-1]} <= {slots} and min(counts) >= slots - 1


ANYWHERE = Placements(mtp="anywhere")


def placement_rule(name: str, source: str, framework: str, placements: Placements) -> Rule:
    """The rule of a target that can express only these placements."""
    return Rule(
        name,
        source,
        placements.requirement,
        lambda w, b: layout_violates(
            w, b, lambda layout, before_head, model: not placements.expressible(layout, before_head, model)
        ),
        lambda w, s: Sentence(
            "{}; {} needs: {}", placements.refusal(layout_of(w, s), s.mtp_before_head, w.model), framework, placements.requirement
        ),
        reads_placement=True,
    )
