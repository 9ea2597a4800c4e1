"""Adapts a strategy to the settings that a framework can express, with a sentence for each replaced setting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from cost_models.shapes import effective_switches
from cost_models.shapes.canonical import canonical_group_size, canonical_schedule
from cost_models.shapes.layout import default_layout, has_default_layout
from cost_models.shapes.recompute_modules import RecomputeModule, effective_modules
from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, Recompute, RecomputeMethod, StrategyBatch
from cost_models.shapes.switches import FUSIONS, Feature
from cost_models.shapes.tensors import covering_modules
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.fixed import Fixed
from frameworks.physics import pipeline as rules_pipeline
from frameworks.placements import Placements
from frameworks.rule import Rule, SwitchRule, effective_features, up_to
from frameworks.table import Table


def breaks(workload: Workload, strategy: ParallelStrategy, rule: Rule) -> bool:
    """Whether one strategy breaks a rule."""
    return bool(rule.violates(workload, StrategyBatch.of([strategy]))[0])


class Draft:
    """A strategy under change, and one sentence for each change."""

    def __init__(self, workload: Workload, strategy: ParallelStrategy) -> None:
        self.workload = workload
        features = effective_features(workload, strategy)
        schedule = canonical_schedule(strategy.pp, strategy.vpp, strategy.schedule)
        size = canonical_group_size(strategy.pp, schedule, strategy.microbatch_group_size_per_vp_stage)
        self.strategy = replace(strategy, schedule=schedule, microbatch_group_size_per_vp_stage=size, features=features)
        self.sentences: list[str] = []
        self._batch, self._strategy_of_batch = StrategyBatch.of([self.strategy]), self.strategy

    @property
    def features(self) -> Feature:
        """The switches that are on and have an effect."""
        return self.strategy.features

    @property
    def routed(self) -> bool:
        """Whether tokens are sent to experts on other ranks."""
        return self.workload.model.moe is not None and self.strategy.ep * self.strategy.etp > 1

    def set(self, setting: str, planned: object, written: object, why: str, **changes: Any) -> None:
        """Replace fields; the sentence has the planned and the written value."""
        self.strategy = replace(self.strategy, **changes)
        self.sentences.append(Sentence("Not as planned: {} {} is written as {}: {}.", setting, planned, written, why))

    def drop(self, features: Feature, why: str) -> None:
        """Switch off the given features."""
        gone = features & self.features
        if gone:
            self.strategy = replace(self.strategy, features=self.features & ~gone)
            self.sentences.append(Sentence("Not as planned: {} is left out: {}.", _names(gone), why))

    def add(self, features: Feature, why: str) -> None:
        """Switch on the given features."""
        new = features & ~self.features
        if new:
            self.strategy = replace(self.strategy, features=self.features | new)
            self.sentences.append(Sentence("{} comes with it: {}.", _names(new), why))

    def drop_modules(self, modules: RecomputeModule, why: str) -> None:
        """Recompute fewer modules; without modules, selective recompute is off."""
        gone = modules & self.strategy.recompute_modules
        if gone:
            left = self.strategy.recompute_modules & ~gone
            kind = Recompute.NONE if self.strategy.recompute is Recompute.SELECTIVE and not left else self.strategy.recompute
            self.strategy = replace(self.strategy, recompute=kind, recompute_modules=left)
            self.sentences.append(
                Sentence(
                    "Not as planned: recompute of {} is left out, which takes more memory than planned: {}.", _names(gone), why
                )
            )

    def drop_broken(self, *rules: SwitchRule) -> None:
        """Switch off the subject of each broken rule, in order, for the rule's own reason."""
        for rule in rules:
            if self.breaks(rule):
                self.drop(rule.subject, rule.reason(self.workload, self.strategy))

    def fix(self, fixed: Sequence[Fixed]) -> None:
        """Set the switches that the framework sets by itself in such a plan."""
        batch = self.batch
        for each in fixed:
            if not each.changes(self.workload, batch)[0]:
                continue
            if each.on:
                self.strategy = replace(self.strategy, features=self.features | each.feature)
                self.sentences.append(Sentence("Not as planned: {} is on: {}.", _names(each.feature), each.why))
            else:
                self.drop(each.feature, each.why)

    def sequence_parallel(self, needed: Rule, framework: str) -> None:
        """Switch sequence parallelism on if a rule needs it for experts, and off if tp is 1."""
        if self.strategy.tp == 1:
            self.strategy = replace(self.strategy, sequence_parallel=False)
        elif self.workload.model.moe is not None and self.breaks(needed):
            self.set(
                "sequence_parallel",
                "off",
                "on",
                Sentence("{} needs it for experts next to tp", framework),
                sequence_parallel=True,
            )

    def offered(self, table: Table, framework: str) -> None:
        """Drop switches and modules that the framework lacks; replace a missing schedule by 1F1B or interleaved 1F1B."""
        if self.strategy.pp > 1 and self.strategy.schedule not in table.schedules:
            self.usual_schedule(Sentence("{} has no such schedule", framework))
        self.drop(self.features & ~table.offered, Sentence("{} has no such switch", framework))
        self.drop_modules(table.unnamed_modules, Sentence("{} has no name for it", framework))

    def usual_schedule(self, why: str) -> None:
        """Use interleaved chunks if the micro batches fill them, else 1F1B with one chunk a rank."""
        s = self.strategy
        vpp = s.vpp
        chunked = replace(s, schedule=canonical_schedule(s.pp, s.vpp))
        if vpp > 1 and any(breaks(self.workload, chunked, rule) for rule in rules_pipeline.LAYOUT_RULES):
            vpp = 1
        schedule = canonical_schedule(s.pp, vpp)
        added = Feature.OVERLAP_P2P if schedule.rules.in_groups else Feature(0)
        self.set(
            "schedule",
            s.schedule.label,
            schedule.label if vpp == s.vpp else Sentence("{} with vpp 1", schedule.label),
            why,
            schedule=schedule,
            vpp=vpp,
            layer_layout=s.layer_layout if vpp == s.vpp else None,
            recompute_num_layers=s.recompute_num_layers * (s.vpp // vpp if s.recompute_method is RecomputeMethod.BLOCK else 1),
            features=(s.features | added) & ~Feature.DUALPIPEV_DW_DETACH,
        )

    def placed(self, placements: Placements, framework: str) -> None:
        """Place MTP modules as near to their stage as possible, and replace a layout that cannot be expressed by the default."""
        s, model = self.strategy, self.workload.model
        most = placements.most_mtp_before_head(s.pp, s.vpp)
        if s.mtp_before_head > most:
            why = Sentence("{} takes {} over pp {}", framework, up_to(most), s.pp)
            self.set("mtp_before_head", s.mtp_before_head, most, why, mtp_before_head=most)
        if s.layer_layout is None or placements.expressible(s.layer_layout, self.strategy.mtp_before_head, model):
            return
        default = default_layout(model, s.pp, s.vpp, s.schedule) if has_default_layout(model, s.pp, s.vpp, s.schedule) else None
        if default is not None and placements.expressible(default, 0, model):
            why = Sentence("in {} {}", framework, placements.refusal(s.layer_layout, 0, model) or placements.requirement)
            self.set(
                "layer_layout",
                Sentence("of the plan"),
                Sentence("the most even one"),
                why,
                layer_layout=None,
                mtp_before_head=0,
            )

    def one_fusion(self) -> None:
        """Keep only the first of the operators that replace the same collectives."""
        wanted = [fusion for fusion in FUSIONS if fusion in self.features]
        for fusion in wanted[1:]:
            self.drop(fusion, Sentence("{} replaces the same collectives", _names(wanted[0])))

    def dispatcher(self, offered: Collection[Dispatcher], framework: str) -> None:
        """Replace a dispatcher that the framework lacks by the plain all-to-all."""
        given = self.strategy.dispatcher
        if self.workload.model.moe is None:
            self.strategy = replace(self.strategy, dispatcher=Dispatcher.NONE)
        elif not self.routed or given is Dispatcher.NONE:
            self.strategy = replace(self.strategy, dispatcher=Dispatcher.ALLTOALL)
        elif given not in offered:
            why = Sentence("{} has no such dispatch over ep {} here", framework, self.strategy.ep)
            self.set("moe_dispatcher", given.label, "alltoall", why, dispatcher=Dispatcher.ALLTOALL)

    def zero_stage(self, highest: int, why: str) -> None:
        """Limit the ZeRO stage."""
        if self.strategy.zero_stage > highest:
            self.set("zero_stage", self.strategy.zero_stage, highest, why, zero_stage=highest)

    def modules_for_tensors(self, framework: str) -> None:
        """Replace a tensor plan by the recompute modules that drop its tensors."""
        plan = self.strategy.tensor_plan
        if plan is None:
            return
        modules = effective_modules(self.workload.model, covering_modules(plan))
        self.set(
            "tensor_plan",
            Sentence("single tensors"),
            Sentence("recompute of {}", _names(modules) or "nothing"),
            Sentence("{} takes modules, the same on all stages", framework),
            tensor_plan=None,
            recompute=Recompute.SELECTIVE if modules else Recompute.NONE,
            recompute_modules=modules,
        )

    def one_number_of_recompute(self, why: str) -> None:
        """Replace the numbers of recomputed layers for each stage by the number of the fullest stage."""
        plan = self.strategy.recompute_layers_per_stage or (0,)
        layers = max(-(-max(plan) // self.strategy.vpp), 1)
        self.set(
            Sentence("recompute layers_per_stage"),
            list(plan),
            Sentence("{} layers of every virtual stage", layers),
            why,
            recompute_layers_per_stage=None,
            recompute_method=RecomputeMethod.BLOCK,
            recompute_num_layers=layers,
        )

    def recompute_by_module(self) -> None:
        """Clear the fields of full recompute."""
        cleared: dict[str, Any] = {
            "recompute_method": RecomputeMethod.NONE,
            "recompute_num_layers": 0,
            "recompute_layers_per_stage": None,
        }
        if self.strategy.recompute is Recompute.NONE or not self.strategy.recompute_modules:
            cleared |= {"recompute": Recompute.NONE, "recompute_modules": RecomputeModule(0)}
        self.strategy = replace(self.strategy, **cleared)

    def replicated(self, features: Feature) -> None:
        """Switch on the features that the framework sets by itself if parameters have replicas."""
        if effective_switches.has_replicas(self.workload.model, self.strategy):
            self.strategy = replace(self.strategy, features=self.features | features)

    def quietly(self, on: Feature = Feature(0), off: Feature = Feature(0)) -> None:
        """Set or clear switches that the framework controls by itself, without a sentence."""
        self.strategy = replace(self.strategy, features=(self.features | on) & ~off)

    @property
    def batch(self) -> StrategyBatch:
        """The current strategy as a batch of one."""
        if self._strategy_of_batch is not self.strategy:
            self._batch, self._strategy_of_batch = StrategyBatch.of([self.strategy]), self.strategy
        return self._batch

    def breaks(self, rule: Rule) -> bool:
        """Whether the current strategy breaks a rule."""
        return bool(rule.violates(self.workload, self.batch)[0])

    def finish(self) -> tuple[ParallelStrategy, tuple[str, ...]]:
        """The final strategy, and the sentences."""
        return self.strategy, tuple(self.sentences)


def _names(flags: Feature | RecomputeModule) -> str:
    return joined(" and ", (str(flag.name).lower() for flag in type(flags) if flag in flags))
