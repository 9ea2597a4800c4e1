"""What users wrote stays text in Markdown."""

import re

import pytest

from documents.markdown import broken_links, fence, neutral


@pytest.mark.parametrize(
    "text",
    [
        "[l](javascript:alert(1))",
        "![x](http://evil.example/x.png)",
        "<img src=x onerror=alert(1)>",
        "@everyone and @a-team",
        "see http://evil.example and https://evil.example",
        "www.evil.example",
        "mailto:a@evil.example",
        "#123 and !45 and owner/repo#6",
        "`code` **bold** __bold__ ~~gone~~ &#64;everyone",
        "a | b\n# heading\n/close",
    ],
)
def test_no_link_image_mention_or_reference_of_a_user_is_left(text: str) -> None:
    found = neutral(text)
    assert "\n" not in found
    assert not re.search(r"(?<!\\)[\[\]<>`*|&]", found)
    for shown in (found, broken_links(text)):
        assert not re.search(r"(?i)://|www\.\w|mailto:\w|[@#!]\w", shown.replace("\\", "")), shown
    read = found.replace("\u200b", "").replace("\\", "")
    assert read == " ".join(text.split())


def test_a_text_without_marks_stays_as_it_is() -> None:
    assert neutral("tp 8, pp 2: 1.5 s (of 2 s)") == "tp 8, pp 2: 1.5 s (of 2 s)"


def test_a_block_of_code_cannot_be_ended_from_inside() -> None:
    assert fence("echo") == "```"
    assert fence("a ```` b") == "`````"
