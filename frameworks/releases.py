"""Tables of the releases that launch files are written for: facts of their argument definitions, with source and commit."""

from __future__ import annotations

from frameworks.megatron_lm.release_0_12 import MEGATRON_LM
from frameworks.mindformers.release_1_8 import MINDFORMERS
from frameworks.mindspeed_llm.release import MINDSPEED_LLM
from frameworks.release import Release

RELEASES: dict[str, Release] = {release.name: release for release in (MEGATRON_LM, MINDSPEED_LLM, MINDFORMERS)}
