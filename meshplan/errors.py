"""What a refusal is to Python, whoever refuses."""

from __future__ import annotations


class MeshplanError(Exception):
    """A refusal. ``status`` is that of the server, 0 where no server answered, 422 for a job that is refused in this process.

    ``detail`` says in one sentence what is wrong, ``pointer`` where in the request, ``hint`` what would do.
    """

    def __init__(self, status: int, detail: str, *, hint: str | None = None, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.pointer = status, detail, hint, pointer
