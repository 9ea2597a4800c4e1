"""A recipe to read, and its job."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.launch_scripts.schemas import MAX_FILES, MAX_GIVEN, ScriptText
from app.rl.fields import Length, Part
from app.text.json_documents import Document
from cost_models.post_training.lengths import DEFAULT_SIGMA, MAX_SIGMA
from documents.bounds import MAX_NAME, Devices, Name
from documents.checking import Section
from documents.said import Said


class RecipeRequest(Section):
    """A recipe of post-training, and what it does not say."""

    recipe: ScriptText = Field(description="a Bash script that starts verl, or a YAML file of verl or MindSpeed-RL")
    hardware: Name = Field(description="name of a hardware profile")
    mean_answer: Length = Field(description="tokens of an answer in the mean")
    mean_prompt: Length | None = Field(default=None, description="tokens of a prompt in the mean; default: that of a job")
    sigma: Annotated[float, Field(ge=0, le=MAX_SIGMA)] | None = Field(
        default=None, description=f"spread of the answers' lengths; default {DEFAULT_SIGMA}, assumed"
    )
    kept_fraction: Annotated[Part, Field(gt=0)] | None = Field(
        default=None, description="part of the prompts that a filter of groups keeps"
    )
    model: Name | None = Field(default=None, description="a known model, in place of the recipe's path")
    devices: Devices | None = Field(default=None, description="number of devices, where the recipe does not say")
    layouts: bool = Field(default=True, description="false: a job without placement and layouts, for a search that chooses them")
    assume: dict[Name, Literal["ignored"]] | None = Field(
        default=None, max_length=MAX_GIVEN, description="settings to ignore although the price depends on them"
    )
    set: dict[str, Annotated[str, Field(max_length=MAX_NAME)]] | None = Field(
        default=None, max_length=MAX_GIVEN, description="values of the environment"
    )
    files: dict[str, ScriptText] | None = Field(
        default=None,
        max_length=MAX_FILES,
        description="texts of files that the recipe sources or includes, by name; config.json: that of its model",
    )


class RecipeDocument(Document):
    """The job of a recipe, for `POST /v1/rl/estimates`, `/v1/rl/searches` and `/v1/rl/studies`."""

    schema_version: Literal[1] = 1
    framework: str
    release: str
    job: dict[str, Any] = Field(description="the job with every default resolved; see `meshplan schema rl-job`")
    assumptions: list[Said] = Field(description="what is priced in another form, and values that neither recipe nor caller gave")
    ignored: list[Said] = Field(description="settings left out; whether the job fits is then not known")
