"""Rules of a framework come from its code: each names the file that enforces it."""

from __future__ import annotations

import re

import pytest

from frameworks.framework import Framework
from frameworks.legality import rules_for
from frameworks.registry import FRAMEWORKS
from frameworks.target import ANY

# Folders of code, where no one file has the switch or the check.
CODE = re.compile(r"\.py\b|\.cc\b|features_manager|tasks/models/spec|noop_layers|transformer_block_feature")


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.target.label)
def test_a_rule_of_a_framework_names_the_code_that_enforces_it(framework: Framework) -> None:
    physics = {rule.name for rule in rules_for(ANY)}
    unsupported = {rule.name: rule.source for rule in rules_for(framework.target) if not CODE.search(rule.source)}
    assert {name: source for name, source in unsupported.items() if name not in physics} == {}
