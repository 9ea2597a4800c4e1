"""Input and output of the writers of post-training frameworks."""

from __future__ import annotations

import math
from dataclasses import field

from documents.late_methods import dataclass
from documents.sentences import Sentence
from frameworks.release import Release, problems

PROMPT_ROOM = 4  # times the mean prompt, rounded up to 256: the limit if the longest prompt is unknown
PROMPT_MULTIPLE = 256

Setting = bool | int | float | str


@dataclass(frozen=True)
class PostTrainingPlan:
    """The chosen plan of a post-training step.

    ``stage_layers``: layers of each pipeline stage over all its virtual stages. ``staleness``: batches that rollout can be ahead.
    ``idle_devices`` belong to the training pool and are not in ``train_devices``. Of prompts only ``mean_prompt_tokens`` is
    known, and of some jobs ``longest_prompt_tokens``. ``batching``, ``pack_tokens`` and ``recompute_layers`` are as in a job's
    ``strategy``; ``switches`` are those that are on.
    ``ep`` and ``rollout_ep`` are the devices over which experts are spread, with tp; 1: sliced over tp.
    """

    model: str
    placement: str
    stage_layers: tuple[int, ...]
    has_experts: bool
    on_ascend: bool
    devices_per_node: int
    train_devices: int
    rollout_devices: int
    idle_devices: int
    reference_devices: int | None
    prompts: int
    samples: int
    updates: int
    mean_prompt_tokens: float
    max_response_tokens: int
    algorithm: str
    reference: bool
    reward_model: bool
    kept_fraction: float
    staleness: float
    unbounded: bool
    partial: bool
    queue: bool
    offload: bool
    tp: int
    pp: int
    cp: int
    ep: int
    vpp: int
    micro_batch_size: int
    zero_stage: int
    recompute: bool
    rollout_tp: int
    rollout_pp: int
    rollout_dp: int
    rollout_ep: int
    max_requests: int
    memory_fraction: float
    precision: str
    cache_precision: str
    captures_graphs: bool
    draft_tokens: int
    scheduling: str
    longest_prompt_tokens: int | None = None
    old_log_prob: bool = True
    batching: str = "packed"
    pack_tokens: int | None = None
    recompute_layers: int | None = None
    cp_algo: str = "ring"
    switches: frozenset[str] = frozenset()
    shard_size: int = 0

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum prompt length to configure."""
        if self.longest_prompt_tokens is not None:
            return self.longest_prompt_tokens
        return math.ceil(max(self.mean_prompt_tokens, 1.0) * PROMPT_ROOM / PROMPT_MULTIPLE) * PROMPT_MULTIPLE

    @property
    def micro_batch_tokens(self) -> int:
        """Tokens of a micro batch of packed samples, at least those of the longest sample."""
        longest = self.max_prompt_tokens + self.max_response_tokens
        return max(self.pack_tokens or longest, longest) * self.micro_batch_size

    @property
    def prompts_per_update(self) -> int:
        """Prompts of one optimizer step."""
        return max(self.prompts // self.updates, 1)


@dataclass
class Draft:
    """Settings under construction, and the parts of the plan that the release cannot express."""

    release: Release
    settings: dict[str, Setting] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, section: str, **settings: Setting) -> None:
        """Add settings of one section."""
        self.settings.update({Sentence("{}.{}", section, name) if section else name: value for name, value in settings.items()})

    def problems(self) -> list[str]:
        """Problems that the release reports: unknown names, values of another type, exclusions."""
        return problems(self.release, {name: (str(value),) for name, value in self.settings.items()})


@dataclass(frozen=True)
class Exported:
    """A file for one framework, or the reasons why its release has none. ``settings`` are those in the file."""

    framework: str
    release: str
    file_name: str
    text: str | None
    settings: dict[str, Setting]
    notes: tuple[str, ...]
    refused: tuple[str, ...] = ()


def exported(draft: Draft, file_name: str, refused: list[str], text: str) -> Exported:
    """The file of a draft, if nothing rejects it."""
    reasons = tuple(refused or draft.problems())
    return Exported(
        framework=draft.release.name,
        release=draft.release.version,
        file_name=file_name,
        text=None if reasons else text,
        settings={} if reasons else draft.settings,
        notes=tuple(draft.notes),
        refused=reasons,
    )


def common_notes(plan: PostTrainingPlan) -> list[str]:
    """Notes on parts of a plan for which no release of either framework has a setting."""
    notes: list[str] = []
    if plan.shard_size:
        notes.append(Sentence("Shards over {} devices have no setting here.", plan.shard_size))
    if plan.longest_prompt_tokens is None:
        notes.append(
            Sentence(
                "The longest prompt is not known to the plan, whose mean is {:g}: {} is written in its place.",
                plan.mean_prompt_tokens,
                plan.max_prompt_tokens,
            )
        )
    if plan.idle_devices:
        notes.append(Sentence("{} training devices are left out: no layout that uses them is faster.", plan.idle_devices))
    if plan.cache_precision != "bf16":
        notes.append(Sentence("Keys and values in {} have no setting here.", plan.cache_precision))
    if plan.scheduling != "groups":
        notes.append(Sentence("Scheduling {} of answers has no setting here.", plan.scheduling))
    if plan.draft_tokens:
        notes.append(Sentence("{} drafted tokens a step have no setting here.", plan.draft_tokens))
    if plan.prompts % plan.updates:
        notes.append(
            Sentence("{} updates do not divide {} prompts: each takes {}.", plan.updates, plan.prompts, plan.prompts_per_update)
        )
    return notes
