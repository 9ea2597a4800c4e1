"""Sections of the Pangu Ultra MoE case study on throughput: against what was published, and by batch and sequence."""

from __future__ import annotations

from dataclasses import replace

from scripts.case_studies.pangu import (
    BATCHES,
    MFU_FRACTION,
    SEQUENCES,
    STATED_PEAK_FLOPS_PER_S,
    TOKENS_PER_S,
    as_usual,
    best_nearby,
    best_of_structure,
    flops_per_token,
    workload_of,
)
from scripts.case_studies.prices import simulated
from scripts.pages.text import change, layout_text, million, percent, schedule_text, table


def throughput_section() -> str:
    model = workload_of().model
    peak = workload_of().cluster.profile.matmul_flops_per_s["bf16"]
    per_device = TOKENS_PER_S[6144] / 6144
    rows = []
    for seq_length in SEQUENCES:
        for mask in ("causal", "full"):
            flops = flops_per_token(model, seq_length, mask)
            bare = flops_per_token(replace(model, mtp_num_layers=0), seq_length, mask)
            rows.append(
                (
                    f"{seq_length:,}, {mask}",
                    f"{flops / 1e9:.1f}",
                    f"{flops * per_device / MFU_FRACTION[6144] / 1e12:.0f}",
                    percent(flops * per_device / STATED_PEAK_FLOPS_PER_S),
                    percent(flops * per_device / peak),
                    percent(bare * per_device / peak),
                )
            )
    header = (
        "sequence, mask",
        "GFLOPs/token",
        "peak implied by 30.0 %, TFLOPS",
        "at 256 TFLOPS",
        f"at {peak / 1e12:.1f} TFLOPS",
        "the same, without MTP",
    )
    ours = [throughput_row(num_devices, seq_length) for num_devices in TOKENS_PER_S for seq_length in SEQUENCES]
    gain = (TOKENS_PER_S[6144] / 6144) / (TOKENS_PER_S[4096] / 4096)
    return f"""## Against the published throughput

The table has the MFU of the published 1.46 M tokens/s on 6,144 NPUs, by convention. meshplan counts causal
attention, the prediction layer and the head, against the Cube peak of {peak / 1e12:.1f} TFLOPS. The report on
Pangu Pro MoE (`pangu-pro-moe`) states 256 TFLOPS.

{table(header, rows)}
The reports do not state their convention, so compare tokens/s and not MFU. Ours are the fastest setting of
the published structure that fits, with its best placement, and the best plan of the neighbourhood, at one
sequence a device. On 4,096 NPUs, for the system before its optimisations, both use plain virtual stages with
plain all-to-all and no switch beyond the default ones.

{table(("devices, sequence", "published", "published structure", "ratio", "its MFU", "published MFU", "best"), ours)}
From the first system to this layout the published throughput of a device rose by a factor of {gain:.2f}, ours
by {ours_gain():.2f} (sequence {max(SEQUENCES):,}). With the default placement, the first system reaches
{million(first_as_usual())} (sequence {max(SEQUENCES):,}); its placement is not published.
"""


def structure_tokens_per_s(num_devices: int, seq_length: int, global_batch_size: int) -> float:
    """Throughput of the published structure; 0 if no setting fits."""
    found = best_of_structure(num_devices, seq_length, global_batch_size)
    return float(found.estimate["tokens_per_s"]) if found else 0.0


def ours_gain() -> float:
    later, first = (structure_tokens_per_s(n, max(SEQUENCES), n) / n for n in TOKENS_PER_S)
    return later / first


def first_as_usual() -> float:
    """Tokens/s of the first system with the default placement of layers."""
    num_devices = min(TOKENS_PER_S)
    found = best_of_structure(num_devices, max(SEQUENCES), num_devices)
    assert found is not None
    (usual,) = simulated(workload_of(num_devices, max(SEQUENCES), num_devices), [as_usual(found.parallel)])
    return float(usual["tokens_per_s"])


def throughput_row(num_devices: int, seq_length: int) -> tuple[str, ...]:
    job = num_devices, seq_length, num_devices
    best, ours = best_nearby(*job), best_of_structure(*job)
    tokens_per_s = structure_tokens_per_s(*job)
    return (
        f"{num_devices:,}, {seq_length:,}",
        million(TOKENS_PER_S[num_devices]),
        million(tokens_per_s) if ours else "does not fit",
        f"{tokens_per_s / TOKENS_PER_S[num_devices]:.2f}",
        percent(ours.estimate["mfu_fraction"]) if ours else "",
        percent(MFU_FRACTION[num_devices]),
        f"{million(best.estimate['tokens_per_s'])} ({layout_text(best.parallel)})",
    )


def batch_section() -> str:
    header = ("sequence, batch", "published structure", "tokens/s", "best", "tokens/s", "step against best")
    rows = [batch_row(max(SEQUENCES), batch) for batch in BATCHES]
    return f"""## Batch

The global batch is not published. This is the same comparison in the neighbourhood for other batches. A small
batch leaves few micro batches, of which warm-up and cool-down run alone.

{table(header, rows)}"""


def batch_row(seq_length: int, global_batch_size: int) -> tuple[str, ...]:
    job = 6144, seq_length, global_batch_size
    best, ours = best_nearby(*job), best_of_structure(*job)
    ratio = "" if ours is None else change(ours.estimate["step_time_s"] / best.estimate["step_time_s"] - 1)
    return (
        f"{seq_length:,}, {global_batch_size:,}",
        "does not fit" if ours is None else layout_text(ours.parallel),
        million(structure_tokens_per_s(*job)),
        f"{layout_text(best.parallel)}, {schedule_text(best.parallel)}",
        million(best.estimate["tokens_per_s"]),
        ratio,
    )
