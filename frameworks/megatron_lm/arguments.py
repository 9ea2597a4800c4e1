"""Arguments that Megatron-LM and MindSpeed-LLM share, by name; a bare argument has the value ``()``.

Names are those of core 0.12 [megatron-0.12, arguments.py]. The user adds what a strategy does not decide: data, tokenizer,
learning rate, checkpoints, the router's loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.framework import untold_task
from frameworks.model_facts import Arguments, Flat, ModelTable, as_words
from frameworks.release import Release
from frameworks.rule import all_of
from frameworks.table import Table, settled

BARE: tuple[str, ...] = ()


def where(condition: object, *names: str) -> Arguments:
    """Bare arguments, if a condition holds."""
    return dict.fromkeys(names, BARE) if condition else {}


def tokens(release: Release, arguments: Mapping[str, Any], features: Feature) -> tuple[str, ...]:
    """The arguments as shell words, in the order of the release's groups, so that a launch file has one block for each group."""
    final = settled(release, arguments, features, as_words)
    order = list(release.groups)
    names = sorted(final, key=lambda name: order.index(release.group_of(name) or ""))
    return tuple(token for name in names for token in (f"--{name}", *as_words(final[name])))


def model_arguments(release: Release, table: ModelTable, workload: Workload) -> Arguments:
    """Arguments for the model, without the number of layers, which the framework's writer adds."""
    return table.arguments(release, told(table, workload)) | {"attention-dropout": "0.0", "hidden-dropout": "0.0"}


def told(table: ModelTable, workload: Workload) -> Flat:
    """The model as a flat mapping for its table."""
    return table.flat(workload.model, seq_length=workload.training.seq_length)


def untold(
    release: Release, table: ModelTable, name: str, workload: Workload, *, tasks: Sequence[Task] = (Task.PRETRAIN,)
) -> tuple[str, ...]:
    """Sentences about the parts of the model that the release cannot express, and about a task that it does not start."""
    unsayable = table.unsayable(release, told(table, workload))
    missing = [words for fact, words in unsayable if not (fact.priced or fact.is_constant)]
    model = (Sentence("Not the same model: {} cannot be told {}.", name, joined("; ", missing)),) if missing else ()
    return model + untold_task(name, tasks, workload)


def misstated(release: Release, table: ModelTable, name: str, workload: Workload) -> tuple[str, ...]:
    """A sentence about numbers of the model that the release cannot be told; its layers and its cost are the same."""
    unsayable = table.unsayable(release, told(table, workload))
    missing = [words for fact, words in unsayable if fact.is_constant and not fact.priced]
    if not missing:
        return ()
    return (
        Sentence(
            "Another constant: {} cannot be told {}; no price depends on it. Set it in the framework's code.",
            name,
            joined("; ", missing),
        ),
    )


def unbuildable(release: Release, table: ModelTable, workload: Workload) -> tuple[str, ...]:
    """Parts of the model that change a plan's cost and that the release cannot express."""
    return tuple(words for fact, words in table.unsayable(release, told(table, workload)) if fact.priced)


def unstated_note(release: Release, table: ModelTable, workload: Workload) -> tuple[str, ...]:
    """A sentence about constants that the model does not state."""
    names = table.unstated(release, told(table, workload))
    return (Sentence("The model does not state {}: the framework's own holds.", all_of(names)),) if names else ()


def embedding_rows(workload: Workload, s: ParallelStrategy) -> Arguments:
    """The vocabulary, and its padding: a multiple that, times tp, gives exactly the model's rows if tp divides them.

    The tokenizer decides the vocabulary; a reader of the file cannot ask it.
    """
    rows = workload.model.vocab_size
    return {"vocab-size": rows, "make-vocab-size-divisible-by": -(-rows // s.tp)}


def batch_arguments(workload: Workload, strategy: ParallelStrategy) -> Arguments:
    """Lengths and batch sizes."""
    training = workload.training
    return {
        "seq-length": training.seq_length,
        "micro-batch-size": strategy.micro_batch_size,
        "global-batch-size": training.global_batch_size,
    }


def degree_arguments(table: Table, s: ParallelStrategy) -> Arguments:
    """Tensor, sequence, pipeline and context parallelism.

    The framework's writer adds the split of layers and of cp.
    """
    names = table.columns
    arguments: Arguments = {names["tp"]: s.tp, **where(s.sequence_parallel, names["sequence_parallel"]), names["pp"]: s.pp}
    arguments |= table.arguments_of(Feature.OVERLAP_P2P)
    if s.schedule.rules.in_groups and s.microbatch_group_size_per_vp_stage:
        arguments[names["microbatch_group_size_per_vp_stage"]] = s.microbatch_group_size_per_vp_stage
    return arguments | {names["cp"]: s.cp}


def full_recompute(s: ParallelStrategy) -> Arguments:
    """Full recompute; Megatron counts the layers of each virtual stage, as strategies do."""
    if s.recompute is not Recompute.FULL or s.recompute_method is RecomputeMethod.NONE:
        return {}
    return {
        "recompute-granularity": "full",
        "recompute-method": s.recompute_method.label,
        "recompute-num-layers": s.recompute_num_layers,
    }


def selective_recompute(table: Table, modules: RecomputeModule) -> Arguments:
    """Selective recompute of the modules that have a name in the table."""
    wanted = tuple(name for module, name in table.modules.items() if module in modules)
    return {"recompute-granularity": "selective", "recompute-modules": wanted} if wanted else {}
