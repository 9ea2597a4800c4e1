"""Recompute modes by name: the grammar that limits, reports and defaults share.

``none``; ``full`` (every layer, one checkpoint each) and ``full:K`` (one checkpoint for K layers);
``block:K`` and ``block:P%`` (the first K layers, or that share of them, of every virtual stage);
module names joined by ``+`` (a selective recompute, for instance ``layernorm+mlp_act``).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from cost_models.shapes.recompute_modules import MODULE_NAMES, RecomputeModule, names_of
from cost_models.shapes.strategy import Recompute, RecomputeMethod
from documents.bounds import MAX_LAYERS
from documents.errors import did_you_mean, show
from documents.sentences import Sentence, joined
from search.errors import SearchError

ALLOWED = Sentence("none, full, full:K, block:K, block:P%, or modules joined by '+' ({})", joined(", ", MODULE_NAMES))


@dataclass(frozen=True)
class RecomputeMode:
    """One way to recompute, independent of how many layers a virtual stage holds."""

    granularity: Recompute
    method: RecomputeMethod = RecomputeMethod.NONE
    modules: RecomputeModule = RecomputeModule(0)
    num_layers: int = 0
    share_percent: int = 0  # share of a virtual stage's layers, in place of num_layers

    @property
    def name(self) -> str:
        """The mode in the grammar of this module."""
        if self.granularity is Recompute.NONE:
            return "none"
        if self.granularity is Recompute.SELECTIVE:
            return "+".join(names_of(self.modules))
        if self.method is RecomputeMethod.UNIFORM:
            return "full" if self.num_layers == 1 else f"full:{self.num_layers}"
        return f"block:{self.share_percent}%" if self.share_percent else f"block:{self.num_layers}"

    def layers(self, layers_per_chunk: int) -> int:
        """``recompute_num_layers`` where the longest virtual stage holds ``layers_per_chunk`` layers; a share rounds up."""
        if self.share_percent:
            return math.ceil(self.share_percent * layers_per_chunk / 100)
        return self.num_layers


def recompute_mode(text: str) -> RecomputeMode:
    """The mode of that name. Raises ``SearchError`` for any other text."""
    name = text.strip().lower()
    if name == "none":
        return RecomputeMode(Recompute.NONE)
    if name == "full":
        return RecomputeMode(Recompute.FULL, RecomputeMethod.UNIFORM, num_layers=1)
    counted = re.fullmatch(r"(full|block):(\d{1,5})(%?)", name)
    if counted:
        kind, number, percent = counted[1], int(counted[2]), counted[3]
        if percent and kind == "block" and 1 <= number <= 100:
            return RecomputeMode(Recompute.FULL, RecomputeMethod.BLOCK, share_percent=number)
        if not percent and 1 <= number <= MAX_LAYERS:
            method = RecomputeMethod.UNIFORM if kind == "full" else RecomputeMethod.BLOCK
            return RecomputeMode(Recompute.FULL, method, num_layers=number)
    modules = RecomputeModule(0)
    for part in name.split("+"):
        if part not in MODULE_NAMES:
            hint = did_you_mean(part, (*MODULE_NAMES, "none", "full", "block:50%"))
            raise SearchError(Sentence("{} is not a recompute mode{}; give one of {}.", show(text), hint, ALLOWED))
        modules |= MODULE_NAMES[part]
    return RecomputeMode(Recompute.SELECTIVE, modules=modules)
