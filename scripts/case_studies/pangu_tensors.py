"""Recompute and swap of single tensors in the published layout of Pangu Ultra MoE 718B."""

from __future__ import annotations

from dataclasses import replace

from app.calibrations.constants import constants_for
from cost_models.shapes.workload import Workload
from scripts.case_studies.pangu import best_published
from scripts.case_studies.prices import simulated
from scripts.pages.text import gib, percent, wrapped
from search.tensor_choice.tensor_plan import with_tensors


def by_tensor_text(workload: Workload) -> str:
    """Text on the best choice of tensors for the published layout, with its own and with twice the micro batch."""
    best, constants = best_published(workload), constants_for(workload)
    sentences = []
    for times in (1, 2):
        given = replace(best.parallel, micro_batch_size=times * best.parallel.micro_batch_size)
        answer = with_tensors(workload, given, constants)
        name = f"micro batch {given.micro_batch_size}"
        if answer is None:
            sentences.append(f"With {name} no choice of tensors fits.")
            continue
        (one,) = simulated(workload, [answer.strategy])
        gain = one["step_time_s"] / best.estimate["step_time_s"] - 1.0
        sentences.append(
            f"With {name} it takes {one['step_time_s']:.2f} s ({percent(gain)} against modules), of which the rank that pays "
            f"most pays {1e3 * max(answer.added_s):.1f} ms a micro batch, and {gib(answer.host_bytes)} GiB a device lie on the "
            "host."
        )
    return wrapped(
        "Pangu's recompute and swap choose single tensors. The layout at its best, with every tensor of every virtual stage "
        f"kept, computed again or moved to the host at least time ([how](../model.md#tensors)): {' '.join(sentences)}"
    )
