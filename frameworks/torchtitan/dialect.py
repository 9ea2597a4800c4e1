"""What differs between releases of torchtitan: arguments, table, flavors, rules, and the checkpoints of layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from documents.late_methods import dataclass
from frameworks.facts import FactRule
from frameworks.fixed import Fixed
from frameworks.release import Release
from frameworks.rule import Rule
from frameworks.table import Table
from frameworks.torchtitan import rules, rules_main
from frameworks.torchtitan.flavors import FLAVORS, FLAVORS_MAIN, Flavors
from frameworks.torchtitan.table import RELEASE, TABLE
from frameworks.torchtitan.table_main import RELEASE_MAIN, TABLE_MAIN


@dataclass(frozen=True, eq=False)
class Dialect:
    """A release. ``head``: the name of a model's last module. ``some_layers``: each n-th layer of a rank can be recomputed."""

    release: Release
    table: Table
    flavors: Flavors
    rules: tuple[Rule, ...]
    fixed: tuple[Fixed, ...]
    async_tp: FactRule
    head: str
    some_layers: bool

    @cached_property
    def rule(self) -> Mapping[str, Rule]:
        """The rules by name, without ``torchtitan_``."""
        return {rule.name.removeprefix("torchtitan_"): rule for rule in self.rules}


V0_2 = Dialect(RELEASE, TABLE, FLAVORS, rules.RULES, rules.FIXED, rules.ASYNC_TP, "output", some_layers=True)
MAIN = Dialect(
    RELEASE_MAIN, TABLE_MAIN, FLAVORS_MAIN, rules_main.RULES, rules.FIXED, rules_main.ASYNC_TP, "lm_head", some_layers=False
)
