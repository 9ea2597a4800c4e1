"""Text of numbers, layouts and tables for generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill

from app.answers.strategies import RecomputeDocument, recompute_text
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import ParallelStrategy, Schedule
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape, Workload
from search.plans.plan import strategy_to_mapping

GIB = 2.0**30
WIDTH = 110
ENDS = 3  # number of virtual stages whose layers are listed
_SCHEDULE_NAMES = {
    Schedule.ONE_F_ONE_B: "1F1B",
    Schedule.INTERLEAVED: "interleaved",
    Schedule.ZB1P: "ZB1P",
    Schedule.ZBV: "ZB-V",
    Schedule.DUALPIPE: "DualPipe",
    Schedule.DUALPIPE_V: "DualPipeV",
}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    body = list(rows)
    align = ["---:" if all(re.match(r"[*+-]*[0-9]", row[column]) for row in body) else "---" for column in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, align, *body)) + "\n"


def million(tokens_per_s: float) -> str:
    return f"{tokens_per_s / 1e6:.2f} M"


def percent(fraction: float) -> str:
    return f"{100 * fraction:z.1f} %"


def change(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f}"


def peak_text(found: Mapping[str, object]) -> str:
    """Peak memory of an estimate in GiB, bold if it fits."""
    peak, fits = found["peak_memory_bytes"], bool(found["fits"])
    assert isinstance(peak, float)
    return f"{'**' * fits}{gib(peak)}{'**' * fits}"


def schedule_text(strategy: ParallelStrategy) -> str:
    """Name of the schedule, and whether it merges forwards with backwards."""
    name = _SCHEDULE_NAMES.get(strategy.schedule, strategy.schedule.label)
    return f"{name}, merged pairs" if Feature.MOE_COMM_OVERLAP in strategy.features else name


def layout_text(strategy: ParallelStrategy) -> str:
    """Degrees, micro batch and dispatcher on one line."""
    names = ("tp", "pp", "vpp", "cp", "ep")
    degrees = [f"{name.upper()}{getattr(strategy, name)}" for name in names if getattr(strategy, name) > 1]
    return " ".join([*degrees, f"MBS{strategy.micro_batch_size}", strategy.dispatcher.label])


def switches_text(strategy: ParallelStrategy) -> str:
    """Switches that are on, except the switches that are on by default."""
    return ", ".join(f"`{str(f.name).lower()}`" for f in Feature if f in strategy.features & ~DEFAULT_FEATURES)


def ends_text(model: ModelShape, strategy: ParallelStrategy) -> str:
    """Layers of the last virtual stages in the order of the model, with ``m`` for the prediction layer."""
    layout = strategy.layer_layout or default_layout(model, strategy.pp, strategy.vpp, strategy.schedule)
    texts = [f"{layers}" for row in layout for layers in row]
    if model.mtp_num_layers:
        texts[-1 - strategy.mtp_before_head] += " + m"
    return ", ".join(texts[-ENDS:])


def memory_text(workload: Workload, strategy: ParallelStrategy) -> str:
    """Recompute and swap."""
    swaps = [str(f.name).lower() for f in (Feature.SWAP_OPTIMIZER, Feature.SWAP_ATTENTION) if f in strategy.features]
    return ", ".join(
        [recompute_text(RecomputeDocument.model_validate(strategy_to_mapping(workload, strategy)["recompute"])), *swaps]
    )


def wrapped(text: str) -> str:
    """Markdown with paragraphs and list items wrapped to one width; tables, headings and comments are unchanged."""
    filled: list[str] = []
    paragraph: list[str] = []
    for line in text.split("\n"):
        stays = not line or line.startswith(("|", "#", "<!--"))
        if paragraph and (stays or line.startswith("- ")):
            filled.append(_fill(paragraph))
            paragraph = []
        if stays:
            filled.append(line)
        else:
            paragraph.append(line)
    return "\n".join([*filled, *([_fill(paragraph)] if paragraph else [])])


def _fill(lines: Sequence[str]) -> str:
    indent = "  " if lines[0].startswith("- ") else ""
    text = " ".join(line.strip() for line in lines)
    return fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
