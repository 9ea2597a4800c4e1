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

from app.language.choice import Language, hinted, of_header, said
from documents.errors import InfeasibleError, InputError, hint_of, pointer_of, show
from documents.said import Said
from documents.sentences import Sentence

MEDIA_TYPE = "application/problem+json"

# Kind -> status, title, and the hint for an error without one.
KINDS: Mapping[str, tuple[int, str, str]] = {
    "invalid-input": (422, Sentence("The request cannot be used"), Sentence("GET /openapi.json describes every field.")),
    "infeasible": (
        422,
        Sentence("No plan exists"),
        Sentence("The detail names what stands in the way; change that part of the job."),
    ),
    "not-json": (415, Sentence("The body is not JSON"), Sentence("Send the header Content-Type: application/json.")),
    "too-large": (413, Sentence("The body is too large"), Sentence("Send less in one request.")),
    "unauthorized": (
        401,
        Sentence("An API key is needed"),
        Sentence("Send Authorization: Bearer KEY; `meshplan keys create NAME` makes one."),
    ),
    "forbidden": (
        403,
        Sentence("The request is not allowed"),
        Sentence("Call the server by its own address, with a key that may do this."),
    ),
    "unknown-path": (404, Sentence("There is nothing at this path"), Sentence("GET /openapi.json lists the paths.")),
    "not-found": (
        404,
        Sentence("There is no such resource"),
        Sentence("List the parent collection to see which resources exist."),
    ),
    "method-not-allowed": (405, Sentence("The path does not take this method"), Sentence("The Allow header lists the methods.")),
    "conflict": (409, Sentence("The state of the resource forbids this"), Sentence("GET the resource to see its state.")),
    "request-in-progress": (
        409,
        Sentence("The first request with this key still runs"),
        Sentence("Repeat the request in a second."),
    ),
    "key-reused": (
        422,
        Sentence("The idempotency key belongs to another request"),
        Sentence("Use a new Idempotency-Key for a new request."),
    ),
    "timeout": (408, Sentence("The request did not come in time"), Sentence("Send the whole request at once.")),
    "headers-too-large": (431, Sentence("The headers are too large"), Sentence("Send fewer and shorter headers.")),
    "not-http": (400, Sentence("The request is not HTTP"), Sentence("Send one request as RFC 9112 says, with one Host header.")),
    "http-version": (505, Sentence("The version of HTTP is unknown"), Sentence("Send the request as HTTP/1.1.")),
    "rate-limited": (429, Sentence("Too many requests"), Sentence("Repeat the request after the seconds that Retry-After says.")),
    "quota-exceeded": (
        429,
        Sentence("Too many studies or checks"),
        Sentence("Wait until studies have finished, or delete what nobody needs."),
    ),
    "stale": (412, Sentence("The resource has changed"), Sentence("GET it again and send its new ETag.")),
    "internal": (
        500,
        Sentence("The server failed"),
        Sentence("Please report it with the instance; the server's log holds the cause."),
    ),
    "unavailable": (503, Sentence("The server cannot serve yet"), Sentence("Repeat the request in a few seconds.")),
}
_KIND_OF_STATUS = {404: "unknown-path", 405: "method-not-allowed", 413: "too-large", 415: "not-json"}


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:meshplan:problem: and the kind of problem")
    title: Said
    status: int
    detail: Said = Field(description="one sentence: the field, its value, what is allowed")
    pointer: str | None = Field(description="JSON pointer to the offending part of the body")
    parameter: str | None = Field(description="name of the offending path, query or header parameter")
    hint: Said = Field(description="what would do")
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
    """The ``responses`` of an endpoint with these problems, in addition to those of every endpoint."""
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
    content = document.model_dump() | {name: said(getattr(document, name), language) for name in ("title", "detail")}
    content["hint"] = _hint(document, language)
    own = {"Vary": "Accept-Language"} if language == "en" else {"Content-Language": language, "Vary": "Accept-Language"}
    return JSONResponse(content, document.status, {**(error.headers or {}), **own}, MEDIA_TYPE)


def _hint(document: Problem, language: Language) -> str:
    """A hint that ends its detail is the end of the translated detail, too."""
    if language == "en" or isinstance(document.hint, Sentence):
        return said(document.hint, language)
    hint = hinted(document.detail, language) if document.hint == hint_of(document.detail) else None
    return hint or document.hint


def from_input_error(error: InputError, kind: str = "invalid-input") -> ServiceError:
    """A problem from an input error, whose message begins with the field's path and has its hint after a semicolon."""
    message = str(error)
    return ServiceError(kind, message, pointer=pointer_of(message), hint=hint_of(message))


def _from_validation(errors: Sequence[Mapping[str, Any]]) -> ServiceError:
    """A problem from FastAPI's first error in a body, a path, a query or a header."""
    chosen = errors[0]
    place, *path = chosen["loc"]
    if place == "body":
        return ServiceError("invalid-input", Sentence("body: missing; send a JSON object."), pointer="#")
    name = str(path[0])  # also of a list of which one item is wrong
    why = Sentence.whole(str(chosen.get("ctx", {}).get("error", chosen["msg"]))).rstrip(".")
    return ServiceError(
        "invalid-input",
        Sentence("{}: {} is not allowed in the {}; {}.", name, show(chosen["input"]), Sentence.whole(place), why.uncapitalized()),
        parameter=name,
        hint=Sentence("{}.", why),
    )


def _from_http(request: Request, error: HTTPException) -> ServiceError:
    kind = _KIND_OF_STATUS.get(error.status_code, "internal" if error.status_code >= 500 else "invalid-input")
    path = show(request.url.path, 200)
    detail = {
        "unknown-path": Sentence("There is nothing at {}.", path),
        "method-not-allowed": Sentence("{} does not take {}.", path, show(request.method)),
    }.get(kind, Sentence("{}.", error.detail))
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
