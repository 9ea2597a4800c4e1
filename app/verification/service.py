"""A plan, verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.jobs.job import Job
from app.verification.comparison import compared
from app.verification.launch import filling_step, launch_of, question, ranks_to_run
from app.verification.schemas import CountsDocument, Tensor, VerificationDocument
from cost_models.constants import prior_constants
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from cost_models.step.executed import executed_counts
from cost_models.step.traffic import sent_bytes
from documents.errors import InputError
from documents.sentences import Sentence
from meshplan import __version__

MOST_TENSORS = 40
Run = Callable[[dict[str, object]], CountsDocument]


def verification_document(job: Job, run: Run, ranks: Sequence[int] | None, folders: Sequence[str]) -> VerificationDocument:
    """Counts of ``run`` beside the price of the job's strategy; raises ``InputError``, also for a job without one."""
    if job.strategy is None:
        raise InputError(Sentence("strategy: missing; verify takes a plan, such as plan-1.job.yaml of `search --save-dir`."))
    return verified(job.workload, job.strategy, job.document, run, ranks, folders)


def verified(
    workload: Workload,
    strategy: ParallelStrategy,
    document: Mapping[str, Any],
    run: Run,
    ranks: Sequence[int] | None = None,
    folders: Sequence[str] = (),
) -> VerificationDocument:
    """Counts of ``run`` beside the price of the same step.

    ``ranks`` are pipeline ranks; ``None``: those that differ. ``run`` gets the question to the framework. Raises ``InputError``.
    """
    launch = launch_of(workload, strategy)
    workload = filling_step(workload, strategy)
    constants = prior_constants(workload.cluster.profile.family)
    predicted, sends = executed_counts(workload, strategy, constants), sent_bytes(workload, strategy, constants)
    chosen = ranks_to_run(predicted.contents) if ranks is None else sorted(set(ranks))
    if chosen[-1] >= strategy.pp or chosen[0] < 0:
        raise InputError(Sentence("--ranks: the plan has the pipeline ranks 0 to {}.", strategy.pp - 1))
    counts = run(question(launch, workload, strategy, chosen, folders))
    num_devices = workload.cluster.num_devices
    each_stage = num_devices // strategy.pp
    found = []
    for counted in counts.ranks:
        if counted.num_microbatches != predicted.num_microbatches:
            raise InputError(
                Sentence(
                    "The counts are of a step of {} micro batches, and this plan's has {}.",
                    counted.num_microbatches,
                    predicted.num_microbatches,
                )
            )
        if counted.rank // each_stage >= strategy.pp:
            raise InputError(Sentence("The counts are of rank {}, and the plan has {} ranks.", counted.rank, num_devices))
        found.append(compared(counted, counted.rank // each_stage, predicted, sends))
    wrong = {row.detail for rank in found for row in rank.rows if row.quantity == "kept by a layer" and not row.within}
    kinds = {kind.label: "moe" if kind.moe else "dense" for kind in predicted.layer_bytes}
    layers = {}
    for label in sorted(wrong):
        tensors = next((rank.tensors[kinds[label]] for rank in counts.ranks if kinds[label] in rank.tensors), [])
        layers[label] = [Tensor(label=name, bytes=size) for size, name in tensors[:MOST_TENSORS]]
    kernels = {name: value.keeps for rank in counts.ranks for name, value in rank.kernels.items()}
    return VerificationDocument(
        meshplan_version=__version__,
        framework=launch.label,
        job=dict(document),
        num_microbatches=predicted.num_microbatches,
        passed=all(row.within for rank in found for row in rank.rows) and all(c.passed for rank in found for c in rank.checks),
        ranks=found,
        layers=layers,
        kernels=dict(sorted(kernels.items())),
        python=counts.python,
        torch=counts.torch,
        seconds=counts.seconds,
    )
