"""``meshplan schema``: JSON Schemas of inputs and outputs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.exit_codes import DONE

NAMES = (
    "job",
    "search",
    "estimate",
    "explain",
    "tune",
    "validate",
    "budget",
    "check",
    "checks",
    "compare-trace",
    "goodput",
    "calibrate",
    "suggest",
    "measure",
    "measurements",
    "experts",
    "experts-simulate",
    "sequences",
    "serving-job",
    "serving",
    "serving-search",
    "rl-job",
    "rl",
    "rl-search",
    "rl-validate",
    "sweep",
    "verify",
)


def schema(name: Annotated[str, typer.Argument(metavar="NAME", help=" | ".join(NAMES))]) -> int:
    """Prints the JSON Schema of a job, of a budget, or of what a command prints or writes as JSON."""
    from pydantic import BaseModel

    from app.answers import schemas
    from app.calibrations.schemas import CalibrateDocument, SuggestDocument, ValidationDocument
    from app.checks.budget import BudgetDocument
    from app.checks.schemas import CheckDocument, ChecksDocument
    from app.experts.schemas import ExpertDriftDocument, ExpertPlanDocument
    from app.goodput.schemas import GoodputDocument
    from app.jobs.fields import JobDocument
    from app.launch_scripts.schemas import TuneDocument
    from app.measuring.schemas import MeasureDocument
    from app.plans.schemas import ExplainDocument
    from app.rl.fields import RlJobDocument
    from app.rl.schemas import RlDocument, RlSearchDocument, RlValidationDocument
    from app.sequences.schemas import SequencePlanDocument
    from app.serving.fields import ServingJobDocument
    from app.serving.schemas import ServingDocument, ServingSearchDocument
    from app.sweeps.schemas import SweepDocument
    from app.text import terminal
    from app.traces.schemas import TraceDocument
    from app.verification.schemas import VerificationDocument
    from calibration.measurements.files import MeasurementsDocument
    from documents.errors import unknown_name

    documents: dict[str, type[BaseModel]] = {
        "job": JobDocument,
        "search": schemas.SearchDocument,
        "estimate": schemas.EstimateDocument,
        "explain": ExplainDocument,
        "tune": TuneDocument,
        "validate": ValidationDocument,
        "budget": BudgetDocument,
        "check": CheckDocument,
        "checks": ChecksDocument,
        "compare-trace": TraceDocument,
        "goodput": GoodputDocument,
        "calibrate": CalibrateDocument,
        "suggest": SuggestDocument,
        "measure": MeasureDocument,
        "measurements": MeasurementsDocument,
        "experts": ExpertPlanDocument,
        "experts-simulate": ExpertDriftDocument,
        "serving-job": ServingJobDocument,
        "serving": ServingDocument,
        "serving-search": ServingSearchDocument,
        "rl-job": RlJobDocument,
        "rl": RlDocument,
        "rl-search": RlSearchDocument,
        "rl-validate": RlValidationDocument,
        "sequences": SequencePlanDocument,
        "sweep": SweepDocument,
        "verify": VerificationDocument,
    }
    if name not in documents:
        raise unknown_name("NAME", name, NAMES, what="document")
    document = documents[name].model_json_schema()
    terminal.write_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})
    return DONE
