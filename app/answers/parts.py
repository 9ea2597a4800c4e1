"""Parts of an answer that explain an estimate. Each takes many more prices than the estimate itself.

``assumptions``: effects of the job's defaults; without them, the sentences on defaults stay, without effects. ``software``:
effects of operator packs and host options. ``next_runs``: runs to make where measured ones are far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from documents.errors import InputError, show
from documents.sentences import Sentence

Part = Literal["assumptions", "software", "next_runs"]
Explain = Literal["assumptions", "software", "next_runs", "all", "none"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
USUAL: Final[tuple[Part, ...]] = ("assumptions",)  # of answers that hold an estimate beside other things
OF_ONE_STRATEGY: Final[frozenset[Part]] = frozenset({"software", "next_runs"})


def explained_parts(document: Mapping[str, Any], explain: Sequence[Explain] | None) -> frozenset[Part]:
    """The parts that a request asks for, all unless it says otherwise; ``InputError`` where it contradicts itself.

    ``explain`` are the values of the query parameter. The field ``advise`` of the body is older and coarser.
    """
    advise = document.get("advise")
    if not isinstance(advise, bool | None):
        raise InputError(Sentence("advise: {} is not allowed; give true or false.", show(advise)))
    if explain is None:
        return frozenset(PARTS) - (OF_ONE_STRATEGY if advise is False else frozenset())
    if advise is not None:
        raise InputError(Sentence("advise: given beside the parameter explain; give one of the two."))
    if len(explain) > 1 and {"all", "none"} & {*explain}:
        raise InputError(Sentence("explain: all and none stand alone; give one of them, or names of parts."))
    if document.get("strategies") is not None and OF_ONE_STRATEGY & {*explain}:
        raise InputError(Sentence("explain: software and next_runs belong to one strategy; ask for them beside strategy."))
    return frozenset(part for part in PARTS if part in explain or "all" in explain)
