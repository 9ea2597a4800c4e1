"""The web application: wiring only."""

from __future__ import annotations

from functools import partial

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi_offline import FastAPIOffline
from starlette.responses import Response

from app.answers import endpoints as estimates
from app.audit import endpoints as audit
from app.calibrations import endpoints as calibrations
from app.calibrations.accuracy import endpoints as accuracy
from app.calibrations.runs import endpoints as runs
from app.catalogue import endpoints as catalogue
from app.checks import endpoints as checks
from app.checks.history import endpoints as histories
from app.experts import endpoints as experts
from app.goodput import endpoints as goodput
from app.http.addresses import NO_PROXIES, Forwarded, Proxies
from app.http.audit import Audit
from app.http.compression import Compression
from app.http.head import HeadAsGet
from app.http.keys import KeyLimits
from app.http.language import Languages
from app.http.middleware import API, Envelope
from app.http.openapi import add_openapi, allowed_methods, openapi_document
from app.http.pricing import Pricing
from app.http.problems import ServiceError, add_problem_handlers, problem
from app.http.security import require_caller
from app.http.state import WRONG_KEYS_A_MINUTE, ServerState
from app.launch_scripts import endpoints as scripts
from app.plans import endpoints as plans
from app.plans import explanations
from app.recipes import endpoints as recipes
from app.reports import endpoints as reports
from app.rl import endpoints as rl
from app.sequences import endpoints as sequences
from app.server import health
from app.server.dashboard import FILE_METHODS, add_dashboard
from app.server.documentation import API_PAGE, add_documentation
from app.server.pricing import PricingInThreads
from app.serving import endpoints as serving
from app.storage.database_errors import DATABASE_AWAY, cause, told
from app.storage.session import Database
from app.studies import access_terms, submission
from app.studies import endpoints as studies
from app.studies.errors import PlanNotFound, StudyChanged, StudyConflict, StudyNotFound
from app.studies.event_followers import StudyFeeds
from app.sweeps import endpoints as sweeps
from app.verification import endpoints as verification
from documents.sentences import Sentence
from meshplan import __version__

DESCRIPTION = Sentence(
    "Plans how to lay a large-model training job over an Ascend or GPU cluster: "
    "studies, estimates, launch scripts, checks, measured runs, calibrations, catalogues."
)


def create_app(
    database: Database,
    *,
    keys_required: bool = False,
    pricing: Pricing | None = None,
    limits: KeyLimits | None = None,
    wrong_keys_a_minute: int = WRONG_KEYS_A_MINUTE,
    keep_studies_days: int = 0,
    proxies: Proxies = NO_PROXIES,
) -> FastAPI:
    """The application over a database whose schema is current; ``pricing`` is done in threads unless given."""
    app = FastAPIOffline(
        title="meshplan",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        docs_url=API_PAGE,
        swagger_ui_oauth2_redirect_url=f"{API_PAGE}/oauth2-redirect",
    )
    pricing = pricing or PricingInThreads(database)
    app.state.server = ServerState(
        database, keys_required, pricing, limits or KeyLimits(), wrong_keys_a_minute, keep_studies_days
    )
    app.state.following = StudyFeeds(database, app.state.server.stopping)
    app.add_middleware(Languages)
    app.add_middleware(Compression)
    app.add_middleware(Audit)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Envelope, metrics=app.state.server.metrics)
    app.add_middleware(Forwarded, proxies=proxies)
    add_problem_handlers(app, lambda path: allowed_methods(app, path) or FILE_METHODS)
    _add_domain_errors(app)
    reading = (explanations, estimates, scripts, checks, goodput, experts, sequences, serving, sweeps, rl, recipes)
    for part in (
        submission,
        studies,
        access_terms,
        plans,
        verification,
        reports,
        *reading,
        histories,
        runs,
        calibrations,
        accuracy,
        catalogue,
        audit,
    ):
        app.include_router(part.router, prefix=API, dependencies=[Depends(require_caller)])
    app.state.readiness = health.Readiness(database)
    app.include_router(health.router)
    add_documentation(app)
    add_dashboard(app)
    add_openapi(app, "/openapi.json")
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    return app


def _add_domain_errors(app: FastAPI) -> None:
    kinds = {StudyNotFound: "not-found", PlanNotFound: "not-found", StudyConflict: "conflict", StudyChanged: "stale"}
    for known, kind in kinds.items():
        app.add_exception_handler(known, partial(_refuse, kind=kind))
    for away in DATABASE_AWAY:
        app.add_exception_handler(away, _database_away)


async def _database_away(request: Request, error: Exception) -> Response:
    structlog.get_logger().warning(Sentence("database is away"), reason=cause(error))
    detail, hint = told(error)
    return problem(request, ServiceError("unavailable", detail, hint=hint, headers={"Retry-After": "2"}))


async def _refuse(request: Request, error: Exception, *, kind: str) -> Response:
    return problem(request, ServiceError(kind, str(error)))
