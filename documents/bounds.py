"""Upper bounds of numbers, lists and files from outside. All readers of documents use these."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from documents.errors import show
from documents.sentences import Sentence

MAX_ADAPTER_RANK = 4096
MAX_DEVICES = 1_000_000
MAX_DEGREE = 65_536  # maximum degree: with 1,000,000 stages, rejecting a strategy takes seconds
MAX_GLOBAL_BATCH = 10_000_000
MAX_SEQ_LENGTH = 100_000_000
MAX_LAYERS = 10_000
MAX_MTP_LAYERS = 100
MAX_WIDTH = 1_000_000  # maximum hidden, head or rank dimension, and number of heads
MAX_FFN_WIDTH = 10_000_000
MAX_VOCAB = 100_000_000
MAX_EXPERTS = 100_000
MAX_SHARED_WIDTH = MAX_EXPERTS * MAX_FFN_WIDTH
MAX_PARAMETERS = 10**16
MAX_TOKENS = 1e18
MAX_VALUES = 256  # maximum values of one dimension of a search
MAX_RANKS = 100_000  # maximum ranks in a table by rank
MAX_NUMBER = 10**12  # maximum number in launch arguments
MAX_COUNT = 2**63  # bound on the tokens routed to an expert
MAX_MEASURED = 1e18

MAX_NAME = 4096  # characters, of a path too
MAX_LINE = 600
MAX_TEXT = 1000

DOCUMENT_BYTES = 256 * 1024
CONFIG_BYTES = 2**20  # maximum size of a model's config.json
CALIBRATION_BYTES = 2**20
COUNTS_BYTES = 16 * 2**20  # 1024 layers of a few hundred experts
TRACE_BYTES = 256 * 2**20  # maximum size of a log of tokens per expert, step by step
MAX_TRACE_COUNTS = 20_000_000  # steps x layers x experts
MAX_TRACE_STEPS = 100_000
BASELINE_BYTES = 16 * 2**20  # a search document holds up to a thousand plans
RUNS_BYTES, RUN_BYTES = 64 * 2**20, 2**20  # maximum size of a file of runs, and of a line

Degree = Annotated[int, Field(ge=1, le=MAX_DEGREE)]
Devices = Annotated[int, Field(ge=1, le=MAX_DEVICES)]
GlobalBatch = Annotated[int, Field(ge=1, le=MAX_GLOBAL_BATCH)]
SeqLength = Annotated[int, Field(ge=1, le=MAX_SEQ_LENGTH)]
NumLayers = Annotated[int, Field(ge=1, le=MAX_LAYERS)]
Layers = Annotated[int, Field(ge=0, le=MAX_LAYERS)]
MtpLayers = Annotated[int, Field(ge=0, le=MAX_MTP_LAYERS)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
NullableWidth = Annotated[int, Field(ge=0, le=MAX_WIDTH)]
FfnWidth = Annotated[int, Field(ge=1, le=MAX_FFN_WIDTH)]
SharedWidth = Annotated[int, Field(ge=0, le=MAX_SHARED_WIDTH)]
Vocab = Annotated[int, Field(ge=1, le=MAX_VOCAB)]
Experts = Annotated[int, Field(ge=1, le=MAX_EXPERTS)]
SharedExperts = Annotated[int, Field(ge=0, le=MAX_EXPERTS)]
CapacityFactor = Annotated[float, Field(ge=1e-3, le=1000)]
Clamp = Annotated[float, Field(gt=0, le=1e12)]
ZeroStage = Annotated[int, Field(ge=0, le=3)]
InterNodeBytesPerS = Annotated[float, Field(ge=1e6, le=1e13)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(Sentence("{} is not allowed; give one line of printable characters.", show(text)))
    return text


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shortened(value: object) -> object:
    return value[:MAX_TEXT] if isinstance(value, str) else value


Whole = BeforeValidator(_whole)  # 8.0 counts as 8
LongLine = Annotated[str, Field(min_length=1, max_length=4 * MAX_LINE), AfterValidator(_line)]
Line = Annotated[str, Field(min_length=1, max_length=MAX_LINE), AfterValidator(_line)]
Text = Annotated[str, BeforeValidator(_shortened)]
