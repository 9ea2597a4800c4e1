"""Strategies as documents: every field resolved, and a name, the same in every command, page and file."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from app.text.json_documents import Document
from cost_models.shapes.switches import SWITCHES
from documents.said import Said
from documents.sentences import Sentence, joined

_USUAL_SCHEDULES = ("none", "1f1b", "interleaved-1f1b")  # vpp distinguishes these
_NAMED = [str(feature.name).lower() for feature, switch in SWITCHES.items() if switch.priced and not switch.by_default]


class RecomputeDocument(Document):
    granularity: str
    method: str | None
    num_layers: int | None
    modules: list[str]
    layers_per_stage: list[int] | None


class TensorsDocument(Document):
    """Tensors that layers of one kind recompute or swap."""

    recompute: list[str]
    swap: list[str]
    layers: int | None = Field(default=None, description="layers that do so, in a list of several choices; the last has the rest")


class StrategyDocument(Document):
    """A strategy with every default resolved."""

    name: Said = Field(default="", description="degrees, micro batch, and what else differs from the default")
    tp: int
    sequence_parallel: bool
    cp: int
    cp_algo: str | None
    ulysses_degree: int
    pp: int
    vpp: int
    ep: int
    etp: int
    dp: int
    micro_batch_size: int
    num_microbatches: int | None
    schedule: str
    microbatch_group_size_per_vp_stage: int | None
    zero_stage: int
    distributed_optimizer: bool
    optimizer_shard_size: int | None
    moe_dispatcher: str | None
    recompute: RecomputeDocument
    layer_layout: list[list[int]]
    noop_layers: int
    mtp_before_head: int
    features: list[str]
    switches: dict[str, bool] | None = Field(
        default=None, description="default switches that act in the strategy and are not as usual; left out where all are"
    )
    tensor_plan: list[list[dict[str, TensorsDocument | list[TensorsDocument]]]] | None = Field(
        default=None,
        description="by [chunk][stage] and kind of layer, a list where layers of one kind differ; left out where layers keep "
        "what their recompute leaves",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _with_name(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        strategy = handler(given)
        return strategy.model_copy(update={"name": _name(strategy)})


def _name(strategy: StrategyDocument) -> str:
    """A strategy on one line: degrees above one, the micro batch, then all that is not the default and has a price."""
    sizes = ((name, getattr(strategy, name)) for name in ("tp", "pp", "vpp", "cp", "ep", "etp"))
    degrees = [f"{name.upper()}{size}" for name, size in sizes if size > 1]
    parts = [*degrees, f"DP{strategy.dp}", f"MBS{strategy.micro_batch_size}"]
    if strategy.schedule not in _USUAL_SCHEDULES:
        parts.append(str(strategy.schedule))
    if strategy.microbatch_group_size_per_vp_stage not in (None, strategy.pp):
        parts.append(Sentence("groups of {}", strategy.microbatch_group_size_per_vp_stage))
    if strategy.cp > 1:
        parts.append(str(strategy.cp_algo))
    if strategy.tp > 1 and not strategy.sequence_parallel:
        parts.append(Sentence("no SP"))
    if strategy.zero_stage != 1 and strategy.dp * strategy.cp > 1:
        parts.append(f"ZeRO-{strategy.zero_stage}")
    if strategy.optimizer_shard_size:
        hybrid = "HSDP " if strategy.zero_stage >= 2 else ""
        parts.append(Sentence("{}shards of {}", hybrid, strategy.optimizer_shard_size))
    if strategy.moe_dispatcher not in (None, "alltoall"):
        parts.append(str(strategy.moe_dispatcher))
    if strategy.tensor_plan is not None:
        parts.append(Sentence("recompute and swap by tensor"))
    if strategy.recompute.granularity != "none":
        parts.append(recompute_text(strategy.recompute))
    if strategy.noop_layers:
        slots = Sentence("{} empty slots", strategy.noop_layers)
        parts.append(slots if strategy.noop_layers > 1 else Sentence("1 empty slot"))
    parts += [name for name in _NAMED if name in strategy.features]
    parts += [name if on else Sentence("no {}", name) for name, on in (strategy.switches or {}).items()]
    return joined(" ", parts)


def recompute_text(recompute: RecomputeDocument) -> str:
    """The recompute in the form of ``--recompute``."""
    if recompute.granularity == "selective":
        return Sentence("recompute {}", "+".join(recompute.modules))
    if recompute.layers_per_stage:
        equal = set(recompute.layers_per_stage)
        whole = Sentence("recompute by stage") if len(equal) > 1 else Sentence("recompute {} a rank", *equal)
        return Sentence("{}, others {}", whole, "+".join(recompute.modules)) if recompute.modules else whole
    if recompute.granularity == "full":
        layers = recompute.num_layers
        if recompute.method == "block":
            return Sentence("recompute block:{}", layers)
        return Sentence("recompute full") if layers == 1 else Sentence("recompute full:{}", layers)
    return Sentence("no recompute")
