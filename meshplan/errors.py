"""The exception for refused requests, from a server or in this process."""

from __future__ import annotations


class MeshplanError(Exception):
    """A refused request. ``status`` is that of the server, 0 if no server answered, 422 for a job refused in this process.

    ``detail`` says in one sentence what is wrong, ``pointer`` names the place in the request, ``hint`` a remedy.
    """

    def __init__(self, status: int, detail: str, *, hint: str | None = None, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.pointer = status, detail, hint, pointer
