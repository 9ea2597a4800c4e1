"""Checks the subject of a commit message, as a commit-msg hook: imperative, and at most 72 characters."""

from __future__ import annotations

import re
import sys
from pathlib import Path

MAX_LENGTH = 72
# First words that are no imperative: articles, pronouns and prepositions; then endings of tenses, nouns and adverbs.
NOT_IMPERATIVE = re.compile(
    r"(a|an|the|it|its|this|that|these|those|what|who|which|where|when|how|no|not|nothing|all|every|each|of|in|on)"
)
ENDINGS = re.compile(r"\w*(ing|[^e]ed|[^s]s|tion|ly)")
VERBS = {"bring", "ring", "string", "mention", "position", "apply", "supply", "bias", "focus", "canvas", "caution", "question"}
MADE_BY_GIT = re.compile(r"Merge |Revert |fixup! |squash! |amend! ")


def faults(subject: str) -> list[str]:
    """Sentences that say what is wrong with the subject; none if it is good."""
    if MADE_BY_GIT.match(subject):
        return []
    found = []
    if len(subject) > MAX_LENGTH:
        found.append(f"The subject has {len(subject)} characters; at most {MAX_LENGTH} are allowed.")
    word = subject.partition(" ")[0]
    if not re.fullmatch(r"[A-Z][a-z-]+", word):
        found.append("The subject begins with a verb and a capital letter, as in 'Add a hardware profile'.")
    elif word.lower() not in VERBS and (NOT_IMPERATIVE.fullmatch(word.lower()) or ENDINGS.fullmatch(word.lower())):
        found.append(f"'{word}' is no imperative; write what the commit does, as in 'Add a hardware profile'.")
    if subject.endswith("."):
        found.append("The subject ends without a full stop.")
    return found


def main() -> int:
    lines = [line for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found = faults(lines[0] if lines else "")
    if len(lines) > 1 and lines[1]:
        found.append("A blank line separates the subject from the body.")
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
