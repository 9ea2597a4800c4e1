"""Tables of the releases that launch files are written for: facts of their argument definitions, with source and commit."""

from __future__ import annotations

from search.launch.release import Release
from search.launch.releases.megatron_lm_0_12 import MEGATRON_LM
from search.launch.releases.mindformers_1_8 import MINDFORMERS
from search.launch.releases.mindspeed_llm import MINDSPEED_LLM

RELEASES: dict[str, Release] = {release.name: release for release in (MEGATRON_LM, MINDSPEED_LLM, MINDFORMERS)}
