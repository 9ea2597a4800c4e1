"""Rules about the switches, schedules and models that each framework supports, mostly from its table."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.physics.memory import module_names
from frameworks.rule import Rule, all_of, effective_features, either, every_row, has_effect, none_of
from frameworks.table import Table


def feature_names(features: Feature) -> str:
    """The names of a set of features, as run records spell them."""
    return joined(", ", (str(f.name).lower() for f in Feature if f in features))


def offered_rule(
    name: str, source: str, framework: str, table: Table, *, also: Callable[[Workload], Feature] = lambda _: Feature(0)
) -> Rule:
    """A framework has only the switches and the recompute modules of its table, and the switches ``also`` of some jobs."""
    missing, unnamed = ~table.offered, table.unnamed_modules

    def lacking(workload: Workload, s: ParallelStrategy) -> str:
        modules = (
            Sentence("recompute of {}", module_names(s.recompute_modules & unnamed)) if s.recompute_modules & unnamed else ""
        )
        return joined(", ", filter(None, (feature_names(effective_features(workload, s) & missing & ~also(workload)), modules)))

    return Rule(
        name,
        source,
        Sentence("only features that {} has: {}", framework, feature_names(table.offered)),
        lambda w, b: has_effect(w, b, missing & ~also(w)) | ((b.recompute_modules & int(unnamed)) != 0 if unnamed else False),
        lambda w, s: Sentence("{} has no {}", framework, lacking(w, s)),
    )


def schedule_rule(name: str, source: str, framework: str, table: Table) -> Rule:
    """A framework runs only the schedules of its table, or none."""
    choices = either([schedule.label for schedule in table.schedules])
    return Rule(
        name,
        source,
        Sentence("a pipeline runs {}", choices),
        lambda w, b: (b.pp > 1) & ~b.runs((Schedule.NONE, *table.schedules)),
        lambda w, s: Sentence("{} has no schedule {}: {} over pp {}", framework, s.schedule.label, choices, s.pp),
    )


def dispatcher_rule(name: str, source: str, framework: str, table: Table, requirement: str) -> Rule:
    """A framework reaches its experts only by the dispatchers of its table."""
    missing = [dispatcher for dispatcher in Dispatcher if dispatcher and dispatcher not in table.dispatchers]
    choices = either([dispatcher.label for dispatcher in table.dispatchers])
    return Rule(
        name,
        source,
        requirement,
        lambda w, b: reduce(or_, (b.dispatcher == dispatcher for dispatcher in missing), none_of(b)) & (b.ep * b.etp > 1),
        lambda w, s: Sentence("{} has no {} dispatch over ep {}: {}", framework, s.dispatcher.label, s.ep, choices),
    )


def precision_rule(name: str, source: str, framework: str, *offered: str) -> Rule:
    """A framework trains in the given precisions only."""
    return Rule(
        name,
        source,
        Sentence("precision is {}", either(offered)),
        lambda w, b: every_row(b, w.training.precision not in offered),
        lambda w, s: Sentence("{} trains in {}, not {}", framework, either(offered), w.training.precision),
        job_only=True,
    )


def recipe_rule(name: str, source: str, framework: str, *offered: str) -> Rule:
    """A framework scales operands in 8 bits in the given ways only."""
    return Rule(
        name,
        source,
        Sentence("in 8 bits, training.fp8_recipe is {} or not stated", either(offered)),
        lambda w, b: every_row(b, w.training.recipe is not None and w.training.fp8_recipe not in offered),
        lambda w, s: Sentence("{} has no recipe {}: {}", framework, w.training.fp8_recipe, either(offered)),
        job_only=True,
    )


def optimizer_rule(name: str, source: str, framework: str, *offered: str) -> Rule:
    """A framework is priced with the given optimizers only."""
    return Rule(
        name,
        source,
        Sentence("optimizer is {}", either(offered)),
        lambda w, b: every_row(b, w.training.optimizer.name not in offered or w.training.optimizer.state_types is not None),
        lambda w, s: (
            Sentence("{} has no optimizer whose states have types of their own", framework)
            if w.training.optimizer.name in offered
            else Sentence("{} is known with {}, not with {}", framework, either(offered), w.training.optimizer.name)
        ),
        job_only=True,
    )


def task_rule(name: str, source: str, framework: str, *tasks: Task) -> Rule:
    """A framework's program runs the given tasks only; another would train all weights from random ones."""
    return Rule(
        name,
        source,
        Sentence("training.task is {}", either(tasks)),
        lambda w, b: every_row(b, w.training.task.name not in tasks),
        lambda w, s: Sentence(
            "{} is written for {}, not {}: its program would train other weights", framework, either(tasks), w.training.task.name
        ),
        job_only=True,
    )


def model_rule(name: str, source: str, framework: str, unbuildable: Callable[[Workload], tuple[str, ...]]) -> Rule:
    """A framework builds only layers that it has arguments for; ``unbuildable`` names the others."""
    return Rule(
        name,
        source,
        Sentence("each part of the model that costs time or memory has an argument"),
        lambda w, b: every_row(b, bool(unbuildable(w))),
        lambda w, s: Sentence("{} cannot be told {} of {}", framework, all_of(unbuildable(w)), w.model.name),
        job_only=True,
    )


def two_norms_rule(name: str, source: str, layer: str) -> Rule:
    """A framework whose layers have no sandwich norm."""
    return Rule(
        name,
        source,
        Sentence("a layer has 2 norms"),
        lambda w, b: every_row(b, w.model.sandwich_norm),
        lambda w, s: Sentence("{} has 4 norms a layer (sandwich norm), and a layer {} has 2", w.model.name, layer),
        job_only=True,
    )
