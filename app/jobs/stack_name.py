"""Names of software stacks, which targets have in part."""

from __future__ import annotations

from cost_models.shapes.traits import STACKS
from documents.errors import show
from documents.sentences import Sentence
from frameworks.registry import BY_LABEL, BY_NAME


def no_target(value: object) -> object:
    """The value, unless it is a target and no stack; raises ``ValueError``."""
    if isinstance(value, str) and value not in STACKS and (value in BY_LABEL or value in BY_NAME):
        raise ValueError(Sentence("{} is a target, which --target and software.target take.", show(value)))
    return value
