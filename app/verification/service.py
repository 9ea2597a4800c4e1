"""A plan, verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.jobs.job import Job
from app.verification.comparison import compared
from app.verification.launch import filling_step, launch_of, question, ranks_to_run
from app.verification.schemas import CountsDocument, Tensor, VerificationDocument
from cost_models.constants import prior_constants
from cost_models.step.executed import executed_counts
from cost_models.step.traffic import sent_bytes
from documents.errors import InputError
from documents.sentences import Sentence
from meshplan import __version__

MOST_TENSORS = 40
Run = Callable[[dict[str, object]], CountsDocument]


def verification_document(job: Job, run: Run, ranks: Sequence[int] | None, folders: Sequence[str]) -> VerificationDocument:
    """Counts of ``run`` beside the price of the same step.

    ``ranks`` are pipeline ranks; ``None``: those that differ. ``run`` gets the question to the framework. Raises ``InputError``.
    """
    strategy = job.strategy
    if strategy is None:
        raise InputError(Sentence("strategy: missing; verify takes a plan, such as plan-1.job.yaml of `search --save-dir`."))
    launch = launch_of(job, strategy)
    workload = filling_step(job.workload, strategy)
    constants = prior_constants(workload.cluster.profile.family)
    predicted, sends = executed_counts(workload, strategy, constants), sent_bytes(workload, strategy, constants)
    chosen = ranks_to_run(predicted.contents) if ranks is None else sorted(set(ranks))
    if chosen[-1] >= strategy.pp or chosen[0] < 0:
        raise InputError(Sentence("--ranks: the plan has the pipeline ranks 0 to {}.", strategy.pp - 1))
    counts = run(question(launch, workload, strategy, chosen, folders))
    each_stage = workload.cluster.num_devices // strategy.pp
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
        found.append(compared(counted, counted.rank // each_stage, predicted, sends))
    wrong = {row.detail for rank in found for row in rank.rows if row.quantity == "kept by a layer" and not row.within}
    kinds = {kind.label: "moe" if kind.moe else "dense" for kind in predicted.layer_bytes}
    layers = {}
    for label in sorted(wrong):
        tensors = next((rank.tensors[kinds[label]] for rank in counts.ranks if kinds[label] in rank.tensors), [])
        layers[label] = [Tensor(label=name, bytes=size) for size, name in tensors[:MOST_TENSORS]]
    kernels = {name: str(value.get("keeps", "")) for rank in counts.ranks for name, value in rank.kernels.items()}
    return VerificationDocument(
        meshplan_version=__version__,
        framework=launch.label,
        job=dict(job.document),
        num_microbatches=predicted.num_microbatches,
        passed=all(row.within for rank in found for row in rank.rows) and all(c.passed for rank in found for c in rank.checks),
        ranks=found,
        layers=layers,
        kernels=dict(sorted(kernels.items())),
        python=counts.python,
        torch=counts.torch,
        seconds=counts.seconds,
    )
