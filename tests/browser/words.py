"""The words of a page: what it shows, what its pictures draw, and what it says to a screen reader."""

from __future__ import annotations

import re

from playwright.sync_api import Page

from tests.browser.conftest import LABELS, View

# Charts write on a canvas, where nothing can be read again.
NOTE_DRAWN = """
window.drawn = new Set();
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.drawn.add(String(text));
  return fillText.call(this, text, ...place);
};"""
WORDS = """() => {
  const found = new Set(window.drawn);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    if (!texts.currentNode.parentElement.closest("code, pre, script, style, noscript")) found.add(texts.currentNode.data);
  for (const name of ["title", "aria-label", "aria-description", "placeholder", "alt"])
    for (const element of document.querySelectorAll(`[${name}]:not([aria-hidden=true])`)) found.add(element.getAttribute(name));
  return [...found];
}"""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_SENTENCE = re.compile(r"\b[A-Za-z]?[a-z']{2,} [a-z']{2,}")
# English on Chinese pages, and why.
NO_SENTENCES = (
    re.compile(r"((?:[A-Z]{2,3}\d+ )*recompute [a-z_+]+(:\d+)?\b.*)"),  # a strategy, in the words that a job takes
    re.compile(r"README\.md row .*|.* README performance table"),  # a cited title
    re.compile(r"autosize measurement"),  # of a hidden element with which the library measures
    *(
        re.compile(f".*{re.escape(' '.join(text.split()[:6]))}.*") for text in (*LABELS["tags"], LABELS["name"], LABELS["note"])
    ),  # users'
)


def note_drawn(view: View) -> View:
    """To be called before a page is opened."""
    view.page.add_init_script(NOTE_DRAWN)
    return view


def english_words(page: Page) -> list[str]:
    """Texts that are English and should not be: two words in a row, in a text without a Chinese character."""
    texts = {" ".join(str(text).split()) for text in page.evaluate(WORDS)}
    return sorted(
        text
        for text in texts
        if _SENTENCE.search(text) and not _CHINESE.search(text) and not any(known.fullmatch(text) for known in NO_SENTENCES)
    )
