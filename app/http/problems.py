"""Errors as RFC 9457 problem documents: the fault, its place, and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from app.language.choice import of_header
from app.language.documents import problem as in_language
from documents.errors import InfeasibleError, InputError, hint_of, pointer_of, show

MEDIA_TYPE = "application/problem+json"

# Kind -> status, title, and the hint for an error without one.
KINDS: Mapping[str, tuple[int, str, str]] = {
    "invalid-input": (422, "The request cannot be used", "GET /openapi.json describes every field."),
    "infeasible": (422, "No plan exists", "The detail names what stands in the way; change that part of the job."),
    "not-json": (415, "The body is not JSON", "Send the header Content-Type: application/json."),
    "too-large": (413, "The body is too large", "Send less in one request."),
    "unauthorized": (401, "An API key is needed", "Send Authorization: Bearer KEY; `meshplan keys create NAME` makes one."),
    "forbidden": (403, "The request is not allowed", "Call the server by its own address, with a key that may do this."),
    "unknown-path": (404, "There is nothing at this path", "GET /openapi.json lists the paths."),
    "not-found": (404, "There is no such resource", "The list one level up holds what there is."),
    "method-not-allowed": (405, "The path does not take this method", "The Allow header lists the methods."),
    "conflict": (409, "The state of the resource forbids this", "GET the resource to see its state."),
    "request-in-progress": (409, "The first request with this key still runs", "Repeat the request in a second."),
    "key-reused": (422, "The idempotency key belongs to another request", "Use a new Idempotency-Key for a new request."),
    "timeout": (408, "The request did not come in time", "Send the whole request at once."),
    "headers-too-large": (431, "The headers are too large", "Send fewer and shorter headers."),
    "not-http": (400, "The request is not HTTP", "Send one request as RFC 9112 says, with one Host header."),
    "rate-limited": (429, "Too many requests", "Repeat the request after the seconds that Retry-After says."),
    "quota-exceeded": (429, "Too many studies or checks", "Wait until studies have finished, or delete what nobody needs."),
    "stale": (412, "The resource has changed", "GET it again and send its new ETag."),
    "internal": (500, "The server failed", "Please report it with the instance; the server's log holds the cause."),
    "unavailable": (503, "The server cannot serve yet", "Repeat the request in a few seconds."),
}
_KIND_OF_STATUS = {404: "unknown-path", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:meshplan:problem: and the kind of problem")
    title: str
    status: int
    detail: str = Field(description="one sentence: the field, its value, what is allowed")
    pointer: str | None = Field(description="JSON pointer to the offending part of the body")
    parameter: str | None = Field(description="name of the offending path, query or header parameter")
    hint: str = Field(description="what would do")
    instance: str = Field(description="names this request in the server's log")


class ServiceError(HTTPException):
    """An error answer; ``kind`` is a key of ``KINDS``."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        pointer: str | None = None,
        parameter: str | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(KINDS[kind][0], detail, headers)
        self.kind, self.pointer, self.parameter, self.hint = kind, pointer, parameter, hint


def described(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of an endpoint with these problems, beside those of every endpoint."""
    titles: dict[int, list[str]] = {}
    for kind in dict.fromkeys(("unauthorized", "forbidden", "rate-limited", "internal", "unavailable", *kinds)):
        titles.setdefault(KINDS[kind][0], []).append(KINDS[kind][1])
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": "; ".join(of), "content": {MEDIA_TYPE: schema}} for status, of in sorted(titles.items())}


def problem_document(error: ServiceError, request_id: str) -> Problem:
    status, title, hint = KINDS[error.kind]
    return Problem(
        type=f"urn:meshplan:problem:{error.kind}",
        title=title,
        status=status,
        detail=error.detail,
        pointer=error.pointer,
        parameter=error.parameter,
        hint=error.hint or hint,
        instance=f"urn:meshplan:request:{request_id}",
    )


def problem(request: Request, error: ServiceError) -> JSONResponse:
    document = problem_document(error, request.scope.get("request_id", "none"))
    language = of_header(request.headers.get("accept-language", ""))
    content = in_language(document.model_dump(), language)
    own = {"Vary": "Accept-Language"} if language == "en" else {"Content-Language": language, "Vary": "Accept-Language"}
    return JSONResponse(content, document.status, {**(error.headers or {}), **own}, MEDIA_TYPE)


def from_input_error(error: InputError, kind: str = "invalid-input") -> ServiceError:
    """A problem from an input error, whose message begins with the field's path and has its hint after a semicolon."""
    message = str(error)
    return ServiceError(kind, message, pointer=pointer_of(message), hint=hint_of(message))


def _from_validation(errors: Sequence[Mapping[str, Any]]) -> ServiceError:
    """A problem from FastAPI's first error in a body, a path, a query or a header."""
    chosen = errors[0]
    place, *path = chosen["loc"]
    if place == "body":
        return ServiceError("invalid-input", "body: missing; send a JSON object.", pointer="#")
    name = str(path[0])  # also for a list with one wrong item
    said = str(chosen.get("ctx", {}).get("error", chosen["msg"])).rstrip(".")
    return ServiceError(
        "invalid-input",
        f"{name}: {show(chosen['input'])} is not allowed in the {place}; {said[:1].lower() + said[1:]}.",
        parameter=name,
        hint=f"{said}.",
    )


def _from_http(request: Request, error: HTTPException) -> ServiceError:
    kind = _KIND_OF_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "invalid-input")
    path = show(request.url.path, 200)
    detail = {
        "unknown-path": f"There is nothing at {path}.",
        "method-not-allowed": f"{path} does not take {show(request.method)}.",
    }.get(kind, f"{error.detail}.")
    return ServiceError(kind, detail, headers=error.headers)


def add_problem_handlers(app: FastAPI, allowed_methods: Callable[[str], Sequence[str]]) -> None:
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error, ServiceError):
            return problem(request, error)
        refused = _from_http(request, error)
        is_known = refused.kind == "method-not-allowed"
        methods = await run_in_threadpool(allowed_methods, request.url.path) if is_known else ()
        if methods:  # the framework names only those of the first matching route
            refused.headers = {"Allow": ", ".join(methods)}
        return problem(request, refused)

    async def on_input(request: Request, error: InputError) -> JSONResponse:
        return problem(request, from_input_error(error))

    async def on_infeasible(request: Request, error: InfeasibleError) -> JSONResponse:
        return problem(request, ServiceError("infeasible", str(error)))

    async def on_validation(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem(request, _from_validation(error.errors()))

    app.add_exception_handler(HTTPException, on_http)  # type: ignore[arg-type]
    app.add_exception_handler(InputError, on_input)  # type: ignore[arg-type]
    app.add_exception_handler(InfeasibleError, on_infeasible)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, on_validation)  # type: ignore[arg-type]
