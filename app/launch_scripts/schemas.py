"""A script to tune, and the answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.answers.schemas import Answer, EstimateNumbers, PricedWith
from app.answers.strategies import StrategyDocument
from app.text.json_documents import Document
from documents.bounds import DOCUMENT_BYTES, MAX_NAME, Devices, Name, Vocab
from documents.checking import Section
from documents.said import Said

MAX_FILES = 16
MAX_GIVEN = 200

ScriptText = Annotated[str, Field(min_length=1, max_length=DOCUMENT_BYTES)]


class ScriptRequest(Section):
    """A launch script, and settings that it does not contain."""

    script: ScriptText = Field(
        description="a Bash script of Megatron-LM or MindSpeed-LLM, or a YAML file of MindFormers or MindSpeed-LLM's FSDP2"
    )
    hardware: Name = Field(description="name of a hardware profile")
    devices: Devices | None = Field(default=None, description="default: what the script's launcher starts")
    target: Name | None = Field(
        default=None, description="framework, name or name@release; default: the one that knows most of its arguments"
    )
    vocab_size: Vocab | None = Field(default=None, description="rows of the embedding, where the tokenizer decides them")
    assume: dict[Name, Literal["ignored"]] | None = Field(
        default=None, max_length=MAX_GIVEN, description="arguments to ignore although the price depends on them"
    )
    set: dict[str, Annotated[str, Field(max_length=MAX_NAME)]] | None = Field(
        default=None, max_length=MAX_GIVEN, description="values of the environment; arguments of the script are named 1, 2, ..."
    )
    files: dict[str, ScriptText] | None = Field(
        default=None,
        max_length=MAX_FILES,
        description="texts of files that the script sources or names, by name; config.json: that of its model",
    )


class NotUnderstood(Document):
    """Something in the script that was passed over."""

    line: int | None = Field(description="null where it is no single line")
    text: str
    reason: Said


class ScriptChange(Document):
    """Change of one argument; null if it is not given."""

    argument: str
    was: str | None
    now: str | None
    line: int | None = Field(description="where it stood")


class TunedPlan(Document):
    """The best plan for the same model, batch, devices and target."""

    plan_id: str
    strategy: StrategyDocument
    estimate: EstimateNumbers
    proved_best: bool
    stopped_by: str | None = Field(description="what cut the search, if anything did")


class TuneDocument(Answer):
    """Response of `POST /v1/scripts`, and output of `meshplan tune --json`."""

    version: str
    priced_with: PricedWith
    target: str = Field(description="framework and release that the script was read with")
    strategy: StrategyDocument
    estimate: EstimateNumbers | None = Field(
        description="of the script's own plan, by physics alone if the target refuses it (`violations`); null where physics does"
    )
    violations: list[Said] = Field(description="rules of legality that the script's own plan breaks")
    best: TunedPlan | None = Field(description="null where no plan fits")
    speedup: float | None = Field(description="step time of the script's plan over that of the best")
    speedup_error_fraction: float | None = Field(
        default=None,
        description="paired error of the two step times; null without a gain, without evidence, and where "
        "one is simulated and the other not",
    )
    why: Said | None = Field(description="what makes the difference")
    kept: Said | None = Field(
        default=None, description="why the script is left as it is, although its plan is not known to be the best that fits"
    )
    tie: Said | None = Field(description="where the script's plan is not measurably slower than the fastest")
    nearest: Said | None = Field(description="without a best plan: what stands in the way")
    changes: list[ScriptChange]
    diff: str = Field(description="unified diff of the script; empty where nothing is to change")
    script: str = Field(description="the script with the changes made")
    not_understood: list[NotUnderstood]
    ignored: list[NotUnderstood] = Field(description="arguments that would change the price, which leaves them out as asked")
