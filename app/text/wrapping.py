"""Line breaks on a terminal: by the rules of Chinese, and in long names between their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef“”‘’…—"
_UNIT = re.compile(rf"[{_WIDE}] *|[^\s{_WIDE}]+ *| +")
_PARTS = (
    re.compile(r"[^+,/=:]*[+,/=:]+|[^+,/=:]+"),
    re.compile(r"[^_.-]*[_.-]+|[^_.-]+"),
)  # separators of a name, the stronger ones first
_HAS_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CLOSES = tuple("，。、；：！？）》】”’…%°,.;:!?)]")  # begin no line
_OPENS = tuple("（《【“‘([")  # end no line
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
_OF_NUMBER = re.compile(rf"[{_WIDE}]|[A-Za-zµ/]{{1,6}}$")  # a measure word or a unit


def _are_together(one: str, other: str) -> bool:
    """Whether two units of a Chinese text must stay on one line."""
    before, is_apart = one.rstrip(), one.endswith(" ")
    if other.startswith(_CLOSES) or before.endswith(_OPENS) or before == "第":
        return True
    if is_apart:
        return bool(_NUMBER.fullmatch(before) and _OF_NUMBER.match(other.rstrip()))
    return bool(_NUMBER.fullmatch(before) and _HAS_CHINESE.match(other))


def _blocks(line: str) -> list[list[str]]:
    """The units of a line in groups that must not be separated."""
    is_chinese = _HAS_CHINESE.search(line) is not None
    units = _UNIT.findall(line) if is_chinese else re.findall(r"\s*\S+\s*", line)
    blocks = [[unit] for unit in units[:1]]
    for one, other in pairwise(units):
        if is_chinese and _are_together(one, other):
            blocks[-1].append(other)
        else:
            blocks.append([other])
    return blocks


def _width(text: str) -> int:
    return cell_len(text.rstrip())


def _pieces(unit: str, width: int, parts: Sequence[re.Pattern[str]] = _PARTS) -> Iterator[str]:
    """Parts of a unit that is too long for a line."""
    if _width(unit) <= width:
        yield unit
    elif parts:
        for part in parts[0].findall(unit):
            yield from _pieces(part, width, parts[1:])
    else:
        yield from chop_cells(unit, width)


def line_ends(line: str, width: int) -> list[int]:
    """Start positions of the second and later lines of a text without line breaks; trailing blanks take no room."""
    ends: list[int] = []
    at = used = 0
    for block in _blocks(line):
        whole = "".join(block)
        for piece in [whole] if _width(whole) <= width else [piece for unit in block for piece in _pieces(unit, width)]:
            if used and used + _width(piece) > width:
                ends.append(at)
                used = 0
            used += cell_len(piece)
            at += len(piece)
    return ends


class Fitted:
    """A text or a cell for Rich with these line breaks."""

    def __init__(self, text: str | Text) -> None:
        self.text = text

    def _made(self, console: Console, options: ConsoleOptions) -> Text:
        if isinstance(self.text, Text):
            return self.text
        return console.render_str(self.text, highlight=options.highlight, markup=options.markup)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self._made(console, options)
        if options.no_wrap or options.overflow == "ignore":
            yield text
            return
        lines = [part for line in text.split(allow_blank=True) for part in line.divide(line_ends(line.plain, options.max_width))]
        for line in lines:
            line.rstrip()
        yield Text("\n", justify=text.justify).join(lines)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._made(console, options))
