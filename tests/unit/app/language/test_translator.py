"""A sentence is told by its template; what stands in its places stays as it is, unless it is a sentence itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.language.translator import Translator
from documents.sentences import Sentence, joined

CHINESE = Translator(
    {
        "{0}: {1} is not allowed; give {2}": "{0}：不允许 {1}；请给出{2}",
        "an integer from {0} to {1}": "{0} 至 {1} 的整数",
        "{0} takes {1} of the step": "{0}占单步的 {1}",
        "the pipeline bubble": "流水线空泡",
        "{0} fit in {1} device{2}": "{1} 个设备容纳 {0}",
        "No plan exists": "不存在方案",
        "No plan, as {0}": "没有方案：{0}",
    },
    {"step": "单步"},
    {"Run it.": "运行。"},
    {"No such file or directory": "没有该文件", "No such option: {0}": "没有该选项：{0}"},
)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (Sentence("No plan exists."), "不存在方案。"),
        (Sentence("No plan exists"), "不存在方案"),
        (
            Sentence("{}: {!r} is not allowed; give {}.", "tp", "x, or y", Sentence("an integer from {} to {:,}", 1, 4096)),
            "tp：不允许 'x, or y'；请给出 1 至 4,096 的整数。",
        ),
        (Sentence("{} takes {:.0%} of the step.", Sentence("the pipeline bubble"), 0.4), "流水线空泡占单步的 40%。"),
        (Sentence("{} takes {} of the step", "a and b", "all"), "a and b 占单步的 all"),
        (Sentence("{} fit in {} device{}", 2, 8, "s"), "8 个设备容纳 2"),
        (joined(", ", ["a", "b", "c"], " or "), "a、b 或 c"),
        (joined("; ", [Sentence("No plan exists"), Sentence("the pipeline bubble")]), "不存在方案；流水线空泡"),
        (Sentence("No plan exists.") + " " + Sentence("No plan exists."), "不存在方案。不存在方案。"),
        (Sentence("{}: {} ({})", "f.yaml", Sentence("No plan exists"), "x: y"), "f.yaml：不存在方案（x: y）"),
        (Sentence("No plan, as {}.", Sentence("nobody translated {}", "it")), "没有方案：nobody translated it。"),
        (Sentence.whole("step"), "单步"),
        (Sentence.whole("No such file or directory"), "没有该文件"),
        (Sentence.whole("No such option: --a and b"), "没有该选项：--a and b"),
        (Sentence("No plan exists.").rstrip("."), "不存在方案"),
        (Sentence("the pipeline bubble").capitalized(), "流水线空泡"),
    ],
)
def test_sentences_are_told_by_their_parts(sentence: str, expected: str) -> None:
    assert CHINESE(sentence) == expected


def test_the_hint_is_the_end_of_its_message() -> None:
    wrong = Sentence("{}: {} is not allowed; give {}.", "a；b", "c; d", Sentence("an integer from {} to {}", 1, 8))
    assert CHINESE.hint(wrong) == "请给出 1 至 8 的整数。"
    assert CHINESE.hint(Sentence("{}: {}", "f", wrong)) == "请给出 1 至 8 的整数。"
    assert CHINESE.hint(Sentence("No plan exists.")) is None


PIECES = [*"ab,.;:()'\"`[]{}。，；\\ ", " or ", " and ", ", ", "; ", ": ", "step", "No plan exists."]
USERS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join).map(str.strip)  # Chinese needs no blanks at the edges
TEXTS: list[Callable[[str], Sentence]] = [
    lambda text: Sentence("{}: {} is not allowed; give {}.", text, 1, 2),
    lambda text: Sentence("{}: {} is not allowed; give {}.", 1, text, Sentence("an integer from {} to {}", 1, 8)),
    lambda text: Sentence("{} takes {} of the step", text, text),
    lambda text: Sentence("{}: {} ({})", text, Sentence("No plan exists"), text),
    lambda text: joined(", ", [text, "b", text], " and "),
    lambda text: Sentence("No plan, as {}.", Sentence("{}; {}", text, Sentence("the pipeline bubble"))),
]


@pytest.mark.parametrize("sentence", TEXTS)
@given(text=USERS)
def test_what_a_user_wrote_is_in_the_translation_unchanged(sentence: Callable[[str], Sentence], text: str) -> None:
    assert text in CHINESE(sentence(text))


@given(text=st.text(max_size=100))
def test_a_text_without_parts_is_left_alone(text: str) -> None:
    assert CHINESE(text) == text
