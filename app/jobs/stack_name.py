"""Names of software stacks, which targets have in part."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from cost_models.shapes.traits import STACKS
from documents.checking import OneOf
from documents.errors import show
from documents.sentences import Sentence
from frameworks.registry import BY_LABEL, BY_NAME

GRAPH_STACKS = tuple(name for name, stack in STACKS.items() if stack.graph_by_default)


def _no_target(value: object) -> object:
    if isinstance(value, str) and value not in STACKS and (value in BY_LABEL or value in BY_NAME):
        raise ValueError(Sentence("{} is a target, which --target and software.target take.", show(value)))
    return value


StackName = Annotated[str, OneOf(*STACKS), BeforeValidator(_no_target)]
