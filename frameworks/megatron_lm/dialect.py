"""Differences between releases of Megatron-LM besides their arguments, terms and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cost_models.shapes.optimizers import OPTIMIZERS
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.draft import Draft
from frameworks.fixed import Fixed
from frameworks.megatron_lm import rules_0_12, rules_0_19
from frameworks.megatron_lm.model_table import MODEL_0_12, MODEL_0_19
from frameworks.megatron_lm.table import RELEASE_0_12, RELEASE_0_19, TABLE_0_12, TABLE_0_19
from frameworks.model_facts import Arguments, ModelTable
from frameworks.placements import Placements
from frameworks.release import Release
from frameworks.rule import Rule, SwitchRule, every_row
from frameworks.table import Table


@dataclass(frozen=True)
class Dialect:
    """One release of Megatron-LM.

    ``fsdp``: arguments of fully sharded data parallelism; ``deepep``: those added to the flexible dispatcher; ``hybridep``: in
    NVLink domains that DeepEP does not span (empty: the release has no other). ``placements``: the
    possible placements of layers; if they are not ``even``, one argument has the layout. ``tasks``: what ``pretrain_gpt.py``
    trains, and ``optimizers`` with what; ``types_states``: Adam's states may have types. ``fused_latent_rope``: latent attention
    has a fused rotary embedding.
    """

    release: Release
    table: Table
    models: ModelTable
    rules: tuple[Rule, ...]
    fsdp: Arguments
    deepep: Arguments
    hybridep: Arguments
    placements: Placements
    tasks: tuple[Task, ...] = (Task.PRETRAIN,)
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS)
    types_states: bool = False
    fused_latent_rope: bool = False
    by_name: Mapping[str, Rule] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {rule.name: rule for rule in self.rules})

    @property
    def name(self) -> str:
        """The framework and its release."""
        return f"Megatron-LM {self.release.version}"

    def broken(self, draft: Draft, name: str) -> bool:
        """Whether a draft breaks the rule of that name, if the release has it."""
        rule = self.by_name.get(name)
        return rule is not None and draft.breaks(rule)

    def drop_broken(self, draft: Draft, *names: str) -> None:
        """Switch off the subjects of the named rules that the draft breaks."""
        found = (self.by_name.get(name) for name in names)
        draft.drop_broken(*(rule for rule in found if isinstance(rule, SwitchRule)))

    def lacks_fused_rope(self, model: ModelShape) -> bool:
        """Whether the release has no fused rotary embedding for the model; with YaRN's scale it has one for MLA alone.

        Source: [megatron-0.19, rope_utils.py].
        """
        if model.mla is not None:
            return not self.fused_latent_rope
        scaling = model.constants.rope_scaling
        return model.constants.rotary_interleaved or (scaling is not None and scaling.kind == "yarn")

    @property
    def fixed(self) -> tuple[Fixed, ...]:
        """Switches that the release sets by itself in some plans."""
        no_kernel = Sentence("{} has no fused rotary embedding for this attention", self.name)
        sharded = Sentence("fully sharded data parallelism overlaps by itself")
        return (
            Fixed(Feature.FUSED_ROPE, lambda w, b: every_row(b, self.lacks_fused_rope(w.model)), no_kernel),
            Fixed(
                Feature.FUSED_NORM, lambda w, b: every_row(b, True), Sentence("Transformer Engine always fuses norms"), on=True
            ),
            Fixed(Feature.OVERLAP_GRAD_REDUCE, lambda w, b: b.zero_stage >= 2, sharded, on=True),
            Fixed(Feature.OVERLAP_PARAM_GATHER, lambda w, b: b.zero_stage >= 3, sharded, on=True),
        )


CORE_0_12 = Dialect(
    RELEASE_0_12,
    TABLE_0_12,
    MODEL_0_12,
    rules_0_12.RULES,
    fsdp={"use-custom-fsdp": ()},
    deepep={"moe-enable-deepep": ()},
    hybridep={},
    placements=rules_0_12.PLACEMENTS,
    optimizers=rules_0_12.OPTIMIZERS,
)
CORE_0_19 = Dialect(
    RELEASE_0_19,
    TABLE_0_19,
    MODEL_0_19,
    rules_0_19.RULES,
    fsdp={"use-megatron-fsdp": (), "ckpt-format": "fsdp_dtensor", "init-model-with-meta-device": ()},
    deepep={"moe-flex-dispatcher-backend": "deepep"},
    hybridep={"moe-flex-dispatcher-backend": "hybridep"},
    placements=rules_0_19.PLACEMENTS,
    tasks=rules_0_19.TASKS,
    types_states=True,
    fused_latent_rope=True,
)
