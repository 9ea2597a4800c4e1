"""The load of a job's experts: counts, one factor, or the router's balance, with a usual one for each model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.jobs.expert_counts import FIELD as COUNTS
from app.jobs.expert_counts import expert_counts
from app.jobs.fields import TrainingSection
from cost_models.shapes.expert_spread import (
    PEAK_QUANTILE,
    ExpertSpread,
    chooses_one_of_every_group,
)
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.sentences import Sentence, joined

FACTOR, BALANCE = "training.expert_load_factor", "training.router_balance"
CAPACITY = "training.expert_capacity_factor"
_DEGREES = (2, 4, 8, 16, 32, 64)
_SHOWN = 4


def with_capacity(section: TrainingSection, model: ModelShape, labels: Mapping[str, str]) -> ModelShape:
    """The model with the job's expert capacity: drop-and-pad if the plan pads, otherwise dropping."""
    if section.expert_capacity_factor is None:
        return model
    if model.moe is None:
        raise InputError(Sentence("{}: {} has no experts; leave it out.", labels.get(CAPACITY, CAPACITY), model.name))
    return replace(model, moe=replace(model.moe, capacity_factor=section.expert_capacity_factor))


def expert_load(
    section: TrainingSection,
    model: ModelShape,
    folder: Path | None,
    labels: Mapping[str, str],
    assumed: dict[str, str],
    warnings: list[str],
) -> dict[str, Any]:
    """The fields of a ``TrainingJob`` for the load of its experts."""
    factor, counts, balance = section.expert_load_factor, section.expert_counts, section.router_balance
    given = [name for name, value in ((FACTOR, factor), (COUNTS, counts), (BALANCE, balance)) if value is not None]
    if len(given) > 1:
        raise InputError(
            Sentence(
                "{}: given beside {}, which it takes the place of; give one of the two.", labels.get(given[1], given[1]), given[0]
            )
        )
    moe = model.moe
    if given and (given != [FACTOR] or factor != 1.0) and moe is not None and moe.capacity_factor:
        warnings.append(
            Sentence(
                "{} has no effect: {} has a capacity factor, which pads or drops every expert to the same.", given[0], model.name
            )
        )
    if counts is not None:
        return {"expert_counts": expert_counts(counts, model, folder, labels)}
    if factor is not None:
        if moe is None and factor != 1.0:
            warnings.append(Sentence("{} has no effect: {} has no experts.", FACTOR, model.name))
        return {"expert_load_factor": factor}
    if balance is not None:
        return {"expert_spread": _stated_spread(balance, model, labels)}
    spread = model.expert_spread()
    if moe is None or moe.capacity_factor or spread is None:
        return {}
    assumed[BALANCE] = _why(spread)
    return {"expert_spread": replace(spread, assumed=True)}


def _stated_spread(balance: str, model: ModelShape, labels: Mapping[str, str]) -> ExpertSpread | None:
    field, moe = labels.get(BALANCE, BALANCE), model.moe
    if moe is None:
        raise InputError(Sentence("{}: {} has no experts; leave it out.", field, model.name))
    stated = RouterBalance(balance)
    if stated is RouterBalance.GROUP and not chooses_one_of_every_group(moe.top_k, moe.num_groups, moe.group_topk):
        raise InputError(
            Sentence(
                "{}: {} is not allowed, since {} does not choose one expert of each of several groups; give {}.",
                field,
                balance,
                model.name,
                joined(", ", (other for other in RouterBalance if other is not stated)),
            )
        )
    return model.expert_spread(stated)


def _why(spread: ExpertSpread) -> str:
    degrees = [degree for degree in _DEGREES if degree <= spread.num_experts][-_SHOWN:]
    mean = joined(", ", (Sentence("{:.2f} at EP{}", spread.load_factor(degree), degree) for degree in degrees))
    peak = joined(", ", (f"{spread.peak_load_factor(degree):.2f}" for degree in degrees))
    return Sentence(
        "(not stated: times are those of even experts, the interval reaches up to the usual {}: the fullest expert rank has {} "
        "x the mean in time, and in memory, which has room for it, in {:.0%} of the steps, {}; {})",
        spread.balance,
        mean,
        PEAK_QUANTILE,
        peak,
        spread.source,
    )
