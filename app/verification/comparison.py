"""Counted beside predicted, number by number."""

from __future__ import annotations

from collections.abc import Mapping

from app.verification.schemas import Call, Check, CountedRank, RankVerification, Row, Unit
from cost_models.shapes.layer_keys import Floats
from cost_models.step.executed import ExecutedCounts
from documents.sentences import Sentence

BYTES, HELD, PEAK, FLOPS = 0.005, 0.01, 0.03, 0.005
LEFT_AFTER_STEP = 0.01  # of the peak
# Groups of the framework by the kind that prices them; others are small and left out of the price.
PRICED_GROUPS = {"tp": "tp", "cp": "cp", "ep": "ep", "dp": "dp", "expert_dp": "expert_dp", "pp": "pp", "embedding": "pp"}
STATES = {"weights": "weight_bytes", "gradients": "gradient_bytes", "master": "master_bytes", "moments": "moment_bytes"}


def sent(call: Call) -> float:
    """Bytes that the rank sends in these calls."""
    others = (call.size - 1) / call.size
    if call.kind in ("irecv", "recv", "barrier"):
        factor = 0.0
    elif call.kind in ("isend", "send"):
        factor = 1.0
    elif call.kind == "all_reduce":
        factor = 2.0 * others
    else:
        factor = others
    return factor * call.bytes * call.count


def row(quantity: str, detail: str, unit: Unit, counted: float, predicted: float, tolerance: float) -> Row:
    """One comparison."""
    if counted == 0.0:
        return Row(quantity=quantity, detail=detail, unit=unit, counted=counted, predicted=predicted, ratio=None,
                   tolerance=tolerance, within=predicted == 0.0)  # fmt: skip
    ratio = predicted / counted
    return Row(quantity=quantity, detail=detail, unit=unit, counted=counted, predicted=predicted, ratio=ratio,
               tolerance=tolerance, within=abs(ratio - 1.0) <= tolerance)  # fmt: skip


def compared(
    counted: CountedRank, pipeline_rank: int, predicted: ExecutedCounts, sent_bytes: Mapping[str, Floats]
) -> RankVerification:
    """All numbers of one rank, largest disagreement first."""
    dense = sum(chunk.get("dense", 0) for chunk in counted.parameters)
    experts = sum(chunk.get("experts", 0) for chunk in counted.parameters)
    rows = [row("parameters", "", "parameters", dense, float(predicted.parameters[pipeline_rank]), 0.0)]
    if experts or predicted.expert_parameters.any():
        rows.append(row("parameters", "experts", "parameters", experts, float(predicted.expert_parameters[pipeline_rank]), 0.0))
    for name, field in STATES.items():
        rows.append(row(name, "", "bytes", counted.states.get(name, 0), float(getattr(predicted, field)[pipeline_rank]), BYTES))
    for kind, kept in predicted.layer_bytes.items():
        if found := counted.layers.get("moe" if kind.moe else "dense"):
            usual = int(max(found, key=lambda value: found[value]))
            rows.append(row("kept by a layer", kind.label, "bytes", usual, kept, BYTES))
    if counted.held:  # else the model is one stage, and nothing waits between its passes
        rows.append(_held(counted, pipeline_rank, predicted))
    peak = counted.peak.passes + counted.states.get("moments", 0)
    rows.append(row("peak", "", "bytes", peak, float(predicted.peak_bytes[pipeline_rank]), PEAK))
    forward = sum(value for name, value in counted.flops.items() if name.startswith("forward/"))
    rows.append(row("forward", "", "FLOPs", forward, float(predicted.forward_flops[pipeline_rank]), FLOPS))
    optimizer = counted.flops.get("optimizer/matmul", 0)
    if optimizer or predicted.optimizer_flops.any():
        rows.append(row("optimizer", "", "FLOPs", optimizer, float(predicted.optimizer_flops[pipeline_rank]), FLOPS))
    totals: dict[str, float] = dict.fromkeys(sent_bytes, 0.0)
    others: dict[str, float] = {}
    for call in counted.calls:
        group = PRICED_GROUPS.get(call.group)
        if group is None or call.dtype == "int64":
            name = f"{call.group} {call.kind}" if group is None else f"{call.group} {call.kind} int64"
            others[name] = others.get(name, 0.0) + sent(call)
        else:
            totals[group] = totals.get(group, 0.0) + sent(call)
    for group, value in totals.items():
        expected = float(sent_bytes[group][pipeline_rank]) if group in sent_bytes else 0.0
        if value or expected:
            rows.append(row("sent", group, "bytes", value, expected, BYTES))
    left_out = [row("sent", name, "bytes", value, 0.0, 0.0) for name, value in others.items() if value]
    return RankVerification(
        pipeline_rank=pipeline_rank,
        rows=sorted(rows, key=_disagreement, reverse=True),
        left_out=sorted(left_out, key=lambda each: -each.counted),
        checks=checks(counted),
        assumed=counted.assumed,
        cpu_seconds=counted.cpu_seconds,
    )


def _held(counted: CountedRank, pipeline_rank: int, predicted: ExecutedCounts) -> Row:
    """Bytes between passes. After a forward of the head the running loss is held as well, which the price counts at its peak."""
    between = [value for kind, value in counted.held if kind != "l"]
    loss = 0.0
    if all(kind != "f" for kind, _ in counted.held):  # every forward ends in the loss
        between, loss = [value for _, value in counted.held], predicted.loss_bytes
    held = max(between, default=0) - counted.dummies
    return row("held between passes", "", "bytes", held, float(predicted.held_bytes[pipeline_rank]) + loss, HELD)


def _disagreement(each: Row) -> tuple[bool, float]:
    return not each.within, float("inf") if each.ratio is None else abs(each.ratio - 1.0)


def checks(counted: CountedRank) -> list[Check]:
    """Checks of the run itself: nothing is left over, and every matmul has its backward."""
    left = counted.after_step - counted.built - counted.states.get("moments", 0) - counted.dummies
    peak = max(counted.peak.passes, 1)
    found = [
        Check(
            name="nothing_left",
            passed=left <= LEFT_AFTER_STEP * peak,
            sentence=Sentence("{:,.1f} MB are left after the step, {:.2%} of the peak.", left / 1e6, left / peak),
        )
    ]
    forward, backward = (counted.flops.get(f"{phase}/matmul", 0) for phase in ("forward", "backward"))
    ratio = backward / forward if forward else 0.0
    found.append(
        Check(
            name="matmuls",
            passed=forward > 0 and 1.999 <= ratio <= 3.001,
            sentence=Sentence(
                "Matmuls of the backward are {:,.3f} times those of the forward (2; up to 3 with recompute).", ratio
            ),
        )
    )
    return found
