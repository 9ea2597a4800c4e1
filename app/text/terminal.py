"""Terminal output: answers go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any, TextIO, cast

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from app.language.choice import headed, said, spoken
from app.text.json_documents import Document, json_text
from app.text.wrapping import Fitted
from documents.printable import printable
from documents.sentences import Sentence, each_text, plain

WIDTH_WITHOUT_TERMINAL = 120
LEAST_TEXT = 16  # columns that wrapped text needs, for a table to stay whole
WIDE = 110  # columns from which tables have the columns for wide terminals


class _TrimmedFile:
    """A text file without trailing spaces, with which Rich pads lines and last columns."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _TranslatingConsole(Console):
    """A console that writes sentences and tables in the language of the process."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(_fitted(part) for each in objects for part in _parts(_said(each), self.width)), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        handle_closed_pipe(self.file)


def _said(shown: Any) -> Any:
    if spoken() == "en":
        return shown
    if isinstance(shown, str):
        return said(shown)
    if isinstance(shown, Padding):
        shown.renderable = _said(shown.renderable)
    if isinstance(shown, Table):
        shown.title = _said(shown.title)
        for column in shown.columns:
            column.header = _headed(column.header)
            column._cells = [_said(cell) for cell in column._cells]
    return shown


def _headed(head: Any) -> Any:
    return said(head) if isinstance(head, Sentence) and head.values else headed(head) if isinstance(head, str) else head


def _fitted(shown: Any) -> Any:
    if isinstance(shown, Text) and printable(shown.plain) != shown.plain:
        return Fitted(Text(printable(shown.plain), style=shown.style))
    if isinstance(shown, str | Text):
        return Fitted(printable(shown) if isinstance(shown, str) else shown)
    if isinstance(shown, Padding):
        shown.renderable = _fitted(shown.renderable)
    if isinstance(shown, Table):
        for column in shown.columns:
            column.header = _fitted(column.header)
            column._cells = [_fitted(cell) for cell in column._cells]
    return shown


def _parts(shown: Any, width: int) -> list[Any]:
    """A table in parts that repeat its first columns, where the width does not hold its numbers; anything else as it is."""
    if not isinstance(shown, Table) or shown.box is not None:
        return [shown]
    widths = [_least_width(column) + shown.padding[1] for column in shown.columns]
    num_keys = next((place for place, column in enumerate(shown.columns, 1) if str(column.header)), len(widths))
    parts: list[list[int]] = [[]]
    for place in range(num_keys, len(widths)):
        needed = sum(widths[:num_keys]) + sum(widths[each] for each in (*parts[-1], place))
        if parts[-1] and needed - shown.padding[1] > width:
            parts.append([])
        parts[-1].append(place)
    return [shown] if len(parts) == 1 else [_part(shown, [*range(num_keys), *part]) for part in parts]


def _least_width(column: Column) -> int:
    longest = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
    return longest if column.no_wrap else min(longest, LEAST_TEXT)


def _part(table: Table, places: Sequence[int]) -> Table:
    part = Table(box=None, pad_edge=False, header_style="dim", padding=table.padding, title=table.title, title_justify="left")
    part.columns = [replace(table.columns[place], _index=number) for number, place in enumerate(places)]
    part.rows = table.rows
    return part


def output() -> Console:
    """A console on standard output; without a terminal, plain text of a fixed width."""
    if sys.stdout.isatty():
        return _TranslatingConsole(highlight=False, soft_wrap=False, no_color=_no_color(True))
    return plain_text(sys.stdout, None if "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL)


def plain_text(file: TextIO, width: int | None) -> Console:
    """A console on a file, without colour and trailing spaces."""
    trimmed = cast(IO[str], _TrimmedFile(file))
    return _TranslatingConsole(file=trimmed, highlight=False, soft_wrap=False, width=width, no_color=True)


def messages() -> Console:
    """A console on standard error."""
    return _TranslatingConsole(file=sys.stderr, highlight=False, soft_wrap=True, no_color=_no_color(sys.stderr.isatty()))


def _no_color(is_terminal: bool) -> bool | None:
    return True if not is_terminal or os.environ.get("NO_COLOR") else None


def answer(document: Document | Mapping[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """Print the document as JSON, or with ``show``."""
    if as_json:
        write_json(document)
    else:
        show(output())


def write_json(document: Document | Mapping[str, Any]) -> None:
    write_text(json_text(document))


def write_text(text: str) -> None:
    """Write text with its tabs and trailing blanks; only characters that make a terminal act are written as escapes."""
    try:
        sys.stdout.write(printable(text))
        sys.stdout.flush()
    except BrokenPipeError:
        handle_closed_pipe(sys.stdout)


def handle_closed_pipe(file: IO[str]) -> None:
    """Handle a closed pipe: the command goes on to its files and exit code without output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def write_yaml(document: Mapping[str, Any]) -> None:
    """Print a document as YAML; its sentences are in the language of the command."""
    import yaml

    write_text(
        yaml.safe_dump(each_text(document, lambda text: plain(said(text))), sort_keys=False, allow_unicode=True, width=110)
    )


def plain_table(*headers: str, title: str | None = None) -> Table:
    """A table without a box; a header that starts with ``>`` marks a column of numbers."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", header_style="dim", padding=(0, 2, 0, 0))
    for header in headers:
        is_number = header.startswith(">")
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(header.removeprefix(">"), justify=justify, no_wrap=is_number, overflow="fold")
    return table
