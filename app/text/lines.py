"""Sentences on lines of their own, without Rich, whose import takes longer than most commands."""

from __future__ import annotations

import typer

from app.language.choice import said
from documents.printable import printable


def tell(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, in the language of the process, on standard output or standard error."""
    typer.echo(printable(said(sentence)), err=err)
