"""Lines of a terminal: Chinese takes two cells a character, and its lines end where Chinese may be broken."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from app.text.terminal import plain_table, plain_text
from app.text.wrapping import line_ends

PIECES = st.sampled_from(
    ["单步", "流水线空泡", "，", "；", "。", "、", "（", "）", "：", " ", "14.5 s", " 139 个", "7.7%", "5.6 GiB", "ring", "第 3 个",
     "tp 8 x cp 1", "reuse_fp32_param", "layernorm+mlp_act+mla_up_proj", "->", "=", "/"]
)  # fmt: skip


def _lines(text: str, width: int) -> list[str]:
    ends = [0, *line_ends(text, width), len(text)]
    return [text[start:end].rstrip() for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("width", "text", "lines"),
    [
        (20, "策略 277,028 个，其中能容纳 3,392 个", ["策略 277,028 个，其", "中能容纳 3,392 个"]),
        (20, "增加重计算的时间 14.5 s，与空泡", ["增加重计算的时间", "14.5 s，与空泡"]),
        (16, "上限为显存的五成（其余预留）", ["上限为显存的五成", "（其余预留）"]),
        (14, "会使单步慢 5.3%，不能容纳", ["会使单步慢", "5.3%，不能容纳"]),
        (16, "以 layernorm+mlp_act 重计算", ["以 layernorm+", "mlp_act 重计算"]),
        (15, "layernorm+mlp_act reuse_fp32_param", ["layernorm+", "mlp_act reuse_", "fp32_param"]),
        (6, "moesharedexpert", ["moesha", "redexp", "ert"]),
        (9, "a step of words", ["a step of", "words"]),
        (4, "", [""]),
    ],
)
def test_a_line_ends_where_it_may(width: int, text: str, lines: list[str]) -> None:
    assert _lines(text, width) == lines


@given(pieces=st.lists(PIECES, min_size=1, max_size=30), width=st.integers(24, 90))
def test_lines_fit_and_break_nothing_that_belongs_together(pieces: list[str], width: int) -> None:
    text = "中" + "".join(pieces).strip()
    lines = _lines(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    for line in lines:
        assert cell_len(line) <= width
    if max(map(cell_len, re.split(r"[，；。、：]", text))) > width or re.search(r"[，；。、：（）]{2}|[（ ]$", text):
        return  # marks upon marks may have no place left where they belong
    for before, after in pairwise(lines):
        assert not after.lstrip().startswith(tuple("，。、；：）")), lines
        assert not before.endswith("（"), lines
        assert not (re.search(r"(?:^|[ \u4e00-\u9fff（，；])[\d.,]+$", before) and re.match(r"(?:GiB|s|个)", after)), lines


def test_a_table_breaks_its_cells_alike_and_keeps_its_columns() -> None:
    written = io.StringIO()
    table = plain_table("策略", ">显存")
    table.add_row("layernorm+mlp_act+mla_up_proj", "53.7 GiB")
    table.add_row("其中能容纳 1,392 个策略", "7.0 GiB")
    plain_text(written, 28).print(table)
    assert written.getvalue().splitlines() == [
        "策略                    显存",
        "layernorm+mlp_act+  53.7 GiB",
        "mla_up_proj",
        "其中能容纳           7.0 GiB",
        "1,392 个策略",
    ]
