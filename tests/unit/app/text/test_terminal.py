"""Tables on terminals of every width."""

from __future__ import annotations

import io

import pytest

from app.text.terminal import plain_table, plain_text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_table_of_numbers_is_printed_in_parts_before_a_digit_is_cut(width: int) -> None:
    printed = io.StringIO()
    table = plain_table(">", ">devices", "best plan", ">step", ">device-days", ">cost", ">energy")
    rows = [
        ["1", "16", "TP1 PP2", "67.018 s", "106,522", "3.54 M", "1,498"],
        ["12", "1,024", "TP8", "9.5 s", "7", "40.1 K", "12,345,678"],
    ]
    for row in rows:
        table.add_row(*row)
    plain_text(printed, width).print(table)
    lines = printed.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = printed.getvalue().replace("\n", " ").split()
    assert not {word for row in rows for cell in row for word in cell.split()} - set(words)
    parts = [line for line in lines if "devices" in line]
    assert len(parts) == {40: 3, 60: 2}.get(width, 1)
    assert sum("1,024" in line for line in lines) == len(parts)  # every part has the columns that name a row
