"""The choices of a refinement: changes of the best plans that a sampler chooses from, and the draft that its answers make.

A choice without effect is not offered. The values offered under one name never change, as samplers require: where they depend
on the elite, its number is part of the name. A dimension that the user limits stays as in the lattice. A value that the target
refuses for an elite is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cost_models.layer.idle_modules import idle_modules
from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule, present_modules
from cost_models.shapes.strategy import (
    Dispatcher,
    ParallelStrategy,
    Placement,
    Recompute,
    RecomputeMethod,
    StrategyBatch,
)
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.legality import legal_mask
from frameworks.target import ANY
from search.placement.layer_moves import layout_of, moved
from search.space.allowed_names import modules_among
from search.space.limits import DISPATCHERS, GROUP_SIZE, SWITCHES, SearchLimits
from search.space.memory_saving_forms import LEAN_ON, all_change
from search.space.search_space import SearchSpace
from search.tensor_choice.tensor_plan import keeping_all
from search.trials.named_choices import Choose, Value

Offered = Sequence[Value]
Pick = Callable[[str, Offered], Any]

ELITES = 4  # best plans that are refined
WIDEST = 4  # times the elite's micro batch
TURNS = (1, 2, 3, 4)  # times pp: micro batches that a chunk takes in turn
PARTS = (1, 2, 4, 8)  # parts into which the ranks that share an optimizer state are divided
ANEW = (1, 1, 2, 3)  # choices that a change leaves open
MOST_MOVES = 2  # maximum moves of single layers
AS_IT_IS, MODULES, BY_RANK, BLOCK, BY_TENSOR = "as_it_is", "modules", "by_rank", "block", "by_tensor"
BEST, MOVED = "best", "moved"


@dataclass(frozen=True)
class Draft:
    """A strategy whose recompute and placement are still to be completed.

    ``recompute`` says which recompute is to be the least that fits, ``placed`` whether the fastest placement is chosen.
    """

    strategy: ParallelStrategy
    recompute: str = AS_IT_IS
    placed: bool = False


class DraftChoices:
    """Drafts around the elites, best first, by their parameters."""

    def __init__(self, workload: Workload, space: SearchSpace, limits: SearchLimits, elites: Sequence[ParallelStrategy]) -> None:
        self._workload, self._space, self._limits = workload, space, limits
        self.elites = tuple(elites)[:ELITES]
        self._leaner = {name: feature for name, feature in SWITCHES.items() if feature in space.leaner}
        self._modules = self._refinable_modules()
        self._ways = self._recompute_ways()
        self._legal: dict[tuple[int, str], tuple[int, ...]] = {}

    def seeds(self) -> Iterator[dict[str, Value]]:
        """The parameters of each elite itself, then, best elite first, those with one change.

        A change of the kind of recompute begins without modules, since the elite's recompute may leave nothing to choose. It does
        not count as a change, so that each other change is tried under each kind.
        """
        own = [self.parameters(self._as_is(place)) for place in range(len(self.elites))]
        yield from own
        no_modules: dict[str, Value] = {f"module.{name}": False for name in self._modules}
        for place in range(len(own)):
            ways = [way for way in self._ways if way not in (MODULES, AS_IT_IS)]
            for base in ({}, *({"recompute": way, **no_modules} for way in ways)):
                if base:
                    yield self.parameters(self._as_is(place, base))
                offers: dict[str, Offered] = {}
                found = self.parameters(self._as_is(place, base), offers)
                for name, offered in offers.items():
                    for value in offered if name not in ("elite", "recompute") else ():
                        if value != found[name]:
                            yield self.parameters(self._as_is(place, {**base, name: value}))

    def parameters(self, choose: Choose, offers: dict[str, Offered] | None = None) -> dict[str, Value]:
        """All choices that a sampler makes if ``choose`` answers, with the answers; ``offers`` collects the offered values."""
        found: dict[str, Value] = {}

        def noted(name: str, offered: Offered) -> Value:
            found[name] = choose(name, offered)
            if offers is not None:
                offers[name] = offered
            return found[name]

        self.draft(noted)
        return found

    def _as_is(self, place: int, changed: Mapping[str, Value] | None = None) -> Choose:
        """Answers with the values of an elite, except for those in ``changed``."""
        elite = self.elites[place]
        own: dict[str, Value] = {"elite": place, "recompute": MODULES if _by_module(elite) else AS_IT_IS, "placement": AS_IT_IS}
        own |= changed or {}

        def choose(name: str, offered: Offered) -> Value:
            if name in own:
                return own[name]
            dimension, _, of = name.partition(".")
            if dimension == "module":
                return bool(MODULE_NAMES[of] & elite.recompute_modules)
            if dimension in SWITCHES:
                return SWITCHES[dimension] in elite.features
            if dimension == "dispatcher":
                return elite.dispatcher.label
            value = getattr(elite, dimension, offered[0])
            return value if value in offered else offered[0]

        return choose

    def draft(self, choose: Choose) -> Draft:
        """The draft that the answers of ``choose(name, offered values)`` make."""

        def pick(name: str, values: Offered) -> Any:
            return values[0] if len(values) == 1 else choose(name, values)

        place = pick("elite", range(len(self.elites)))
        plan = self.elites[place]
        for name, values in self._numbers(plan).items():
            plan = replace(plan, **{name: pick(Sentence("{}.{}", name, place), self._taken(place, name, values))})
        dispatchers = self._taken(place, "dispatcher", tuple(self._space.dispatcher) if plan.ep * plan.etp > 1 else ())
        label = pick(f"dispatcher.{place}", tuple(Dispatcher(kind).label for kind in dispatchers))
        plan = replace(plan, dispatcher=DISPATCHERS.get(label, plan.dispatcher))
        plan, recompute = self._recomputed(plan, pick)
        plan, placed = self._placed(plan, pick)
        return Draft(canonical(self._workload, self._switched(plan, recompute, place, pick)), recompute, placed)

    def _numbers(self, plan: ParallelStrategy) -> dict[str, tuple[int, ...]]:
        """The values that may replace the numbers of an elite, as far as the user's limits leave them open."""
        limits, ranks = self._limits, plan.dp * plan.cp
        per_replica = self._workload.training.global_batch_size // plan.dp
        sizes = range(1, min(per_replica, WIDEST * plan.micro_batch_size) + 1)
        found = {
            "micro_batch_size": self._space.micro_batch_size
            if limits.micro_batch_size is not None
            else tuple(size for size in sizes if per_replica % size == 0)
        }
        if plan.schedule.rules.in_groups and limits.microbatch_group_size_per_vp_stage is None:
            found[GROUP_SIZE] = tuple(0 if times == 1 else times * plan.pp for times in TURNS)
        if limits.zero_stage is None and plan.zero_stage and ranks > 1:
            found["optimizer_shard_size"] = tuple(0 if by == 1 else ranks // by for by in PARTS if ranks % by == 0 and ranks > by)
        return found

    def _taken(self, place: int, name: str, values: Sequence[int]) -> tuple[int, ...]:
        """The own value of an elite, and those that its target takes in its place."""
        if (place, name) not in self._legal:
            elite = self.elites[place]
            every = tuple(dict.fromkeys((getattr(elite, name), *values)))
            legal = legal_mask(self._workload, StrategyBatch.of([replace(elite, **{name: value}) for value in every]))
            self._legal[place, name] = tuple(v for v, takes in zip(every, legal.tolist(), strict=True) if takes or v == every[0])
        return self._legal[place, name]

    def _refinable_modules(self) -> dict[str, RecomputeModule]:
        """Modules that act in the model, the user does not forbid, and the target takes alone for some elite."""
        open_to = RecomputeModule(0)
        for elite in self.elites:
            open_to |= present_modules(self._workload.model) & ~idle_modules(self._workload, elite.features)
        open_to &= ~modules_among(self._limits.forbid)
        return {
            name: module
            for name, module in MODULE_NAMES.items()
            if module & open_to and self._any_legal([_selective(keeping_all(elite), module) for elite in self.elites])
        }

    def _recompute_ways(self) -> tuple[str, ...]:
        if self._limits.recompute is not None or not self.elites:
            return (AS_IT_IS,)
        whole = [keeping_all(elite) for elite in self.elites]
        blocks = [
            replace(one, recompute=Recompute.FULL, recompute_method=RecomputeMethod.BLOCK, recompute_num_layers=1)
            for one in whole
        ]
        by_rank = [replace(one, recompute=Recompute.FULL, recompute_layers_per_stage=(1,) * one.pp) for one in whole]
        ways = {
            AS_IT_IS: not all(map(_by_module, self.elites)),
            MODULES: True,
            BLOCK: self._any_legal(blocks),
            BY_RANK: self._any_legal(by_rank),
            BY_TENSOR: self._workload.software.target == ANY.name,
        }
        return tuple(way for way, is_open in ways.items() if is_open)

    def _any_legal(self, strategies: Sequence[ParallelStrategy]) -> bool:
        return bool(strategies) and bool(legal_mask(self._workload, StrategyBatch.of(strategies)).any())

    def _recomputed(self, plan: ParallelStrategy, pick: Pick) -> tuple[ParallelStrategy, str]:
        way = pick("recompute", self._ways)
        if way == AS_IT_IS:
            return plan, way
        plan = keeping_all(plan) if way == BY_TENSOR else replace(keeping_all(plan), features=plan.features)
        if way in (MODULES, BY_RANK):
            chosen = RecomputeModule(0)
            for name, module in self._modules.items():
                chosen |= module if pick(f"module.{name}", (False, True)) else RecomputeModule(0)
            plan = _selective(plan, chosen)
        return plan, AS_IT_IS if way == MODULES else way

    def _placed(self, plan: ParallelStrategy, pick: Pick) -> tuple[ParallelStrategy, bool]:
        if plan.pp == 1:
            return plan, False
        num_stages = plan.pp * plan.vpp
        where = pick("placement", (AS_IT_IS, BEST, MOVED))
        if where != MOVED:
            return plan, where == BEST
        layout, before = layout_of(self._workload, plan), plan.mtp_before_head
        for number in range(1, 1 + pick("moves", range(1, MOST_MOVES + 1))):
            giver, taker = (pick(f"{end}.{number}.of.{num_stages}", range(num_stages)) for end in ("giver", "taker"))
            counts = [layers for row in layout for layers in row]
            if giver != taker and counts[giver]:
                layout = moved(layout, giver, taker)
        if self._workload.model.mtp_num_layers:
            before = pick("mtp_before_head", (0, 1))
        return replace(plan, **Placement(layout, before)._asdict()), False

    def _switched(self, plan: ParallelStrategy, recompute: str, place: int, pick: Pick) -> ParallelStrategy:
        """The draft with memory-saving switches on or off, where that changes the plan."""
        for name, feature in self._leaner.items():
            if recompute == BY_TENSOR and feature in LEAN_ON and feature not in plan.features:
                continue  # tensors are swapped one by one instead, or the choice comes with the plan
            usual = plan.features & ~feature if feature in LEAN_ON else plan.features | feature
            if all_change(self._workload, StrategyBatch.of([replace(plan, features=usual)]), feature)[0]:
                on = pick(Sentence("{}.{}", name, place), (False, True))
                plan = replace(plan, features=plan.features | feature if on else plan.features & ~feature)
        return plan


def _by_module(plan: ParallelStrategy) -> bool:
    """Whether the plan recomputes nothing but modules."""
    return plan.recompute is not Recompute.FULL


def _selective(plan: ParallelStrategy, modules: RecomputeModule) -> ParallelStrategy:
    """The plan with these modules recomputed, if it recomputes nothing."""
    return replace(plan, recompute=Recompute.SELECTIVE if modules else Recompute.NONE, recompute_modules=modules)


def with_random_answers(known: Mapping[str, Value], rng: Random) -> Choose:
    """Answers with known values, and random ones where a value is unknown or not offered."""

    def choose(name: str, offered: Offered) -> Value:
        return known[name] if name in known and known[name] in offered else rng.choice(offered)

    return choose


def with_random_changes(known: Mapping[str, Value], rng: Random) -> Choose:
    """The known parameters with one to three random choices left open, and those that depend on them."""
    anew = set(rng.choices(list(known), k=rng.choice(ANEW)))
    return with_random_answers({name: value for name, value in known.items() if name not in anew}, rng)
