"""What a reader of Chinese may not find: English words of ours, outside names, identifiers and what a user gave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from app.catalogue.models import presets
from app.jobs.fields import JobDocument
from app.rl.fields import RlJobDocument
from cost_models.shapes.recompute_modules import MODULES
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.strategy import Schedule
from cost_models.shapes.switches import SWITCHES
from frameworks.registry import BY_LABEL
from hardware_profiles import catalogue

ROOT = Path(__file__).resolve().parents[1]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Words that hold English sentences together. No name, unit or identifier of ours is one of them.
STOP_WORDS = re.compile(
    r"(?<![\w./=:+-])(?:the|of|is|are|was|and|or|with|without|no|not|for|to|from|by|than|that|which|its?|as|at|be|has|have"
    r"|does|would|takes|needs|gives?|more|less|most|least|other|every|each)(?![\w./=-]*[\w/=])",
    re.IGNORECASE,
)
# Quotations, commands, citations and options, which stay as they are.
KEPT = re.compile(
    r"(?m:^[a-z_]+(?=：))|--show [\w,]+|\bmeshplan \w+\b|'[^'\n]*'|`[^`\n]*`|\[[^\]\n]*\]|--[\w-]+|https?://\S+"
    r"|\"[^\"\n]*\"|arXiv [^）\n]*|\b(?:on|off) -> (?:on|off)\b"
)


# A word by itself: identifiers, paths, versions and products hold other characters, or capitals inside.
WORD = re.compile(r"(?<![\w./=:+@#$<>-])[A-Za-z][a-z]+(?![\w./=@<>-]*[\w/=])")
# Units, and what data sheets, frameworks and their files call things: no glossary of ours explains them.
USUAL = frozenset("ms us min die card tokens True False true false null none on off Token matmul torchrun".split())
USUAL |= frozenset(
    "Adam logits Critic rollout Rollout gelu silu flex Ascend Mixtral Llama Meta verl combine prefill notify".split()
)
USUAL |= frozenset("Pod meshplan master dense amd any llama mla cell swap train".split())

# What the rules of one sentence cannot see: a range of one value, brackets behind brackets, a currency before its number.
BROKEN = re.compile(r"的的|(?<![\d.,])(\d+) 至 \1(?![\d.,])|）（|(?:USD|美元) ?\d|[。；，]；|\bbandwidth\.\w+")


def english_in(text: str, *given: str) -> list[str]:
    """The stop words of a text in Chinese with the words around them; ``given``: what a user wrote."""
    for part in given:
        text = text.replace(part, "…")
    bare = KEPT.sub("…", text)
    return [bare[max(found.start() - 25, 0) : found.end() + 25].replace("\n", " ") for found in STOP_WORDS.finditer(bare)]


def latin_in(text: str, *given: str) -> list[str]:
    """The words of Latin letters in a text in Chinese that no table of ours allows, and broken phrases, each in its place."""
    for part in given:
        text = text.replace(part, "…")
    bare = KEPT.sub("…", text)
    words = [found for found in WORD.finditer(bare) if found[0] not in _allowed()]
    return [
        found.string[max(found.start() - 25, 0) : found.end() + 25].replace("\n", " ")
        for found in (*words, *BROKEN.finditer(text))
    ]


@cache
def _allowed() -> frozenset[str]:
    """Words of the glossary's Chinese, values of a job's fields, and names of models, devices, frameworks and switches."""
    names = [*presets.names(), *catalogue.names(), *BY_LABEL, *MODULES, *RouterBalance, *(kind.label for kind in Schedule)]
    names += [*(feature.name or "" for feature in SWITCHES), *_choices(JobDocument.model_json_schema())]
    names += _choices(RlJobDocument.model_json_schema())
    names += [tier.name for name in catalogue.names() for tier in catalogue.named(name).tiers]
    names += re.findall(r"(?m)^\| `([^`]+)`", (ROOT / "docs/references.md").read_text(encoding="utf-8"))
    for line in (ROOT / "docs/zh/glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            english, *chinese = line.split(" | ")
            names += re.findall(r"`([^`]+)`", english)
            names += re.findall(r"[A-Za-z][a-z]+", re.sub(r"`[^`]*`|\([^)]*\)", "", " ".join(chinese)))
    return USUAL | {str(name) for name in names}


def _choices(schema: Any) -> Iterator[str]:
    """The values that a schema lists for its fields."""
    if isinstance(schema, dict):
        yield from (value for value in schema.get("enum", ()) if isinstance(value, str))
        for each in schema.values():
            yield from _choices(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _choices(each)
