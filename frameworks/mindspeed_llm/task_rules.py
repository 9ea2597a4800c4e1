"""Rules of MindSpeed-LLM on what a job trains: tasks, adapters and what they exclude."""

from __future__ import annotations

from functools import partial

from cost_models.shapes.training_task import Task
from documents.sentences import Sentence
from frameworks.facts import fact_rule
from frameworks.mindspeed_llm.table import RELEASE, TERMS
from frameworks.mindspeed_llm.tasks import STAGE_OF_TASK, breaks_expert_adapters, unstartable, why_no_expert_adapters
from frameworks.offer_rules import task_rule
from frameworks.rule import Rule, every_row, layout_violates, none_of, rules_in

FACTS = partial(fact_rule, RELEASE, TERMS)

TASK = task_rule("mindspeed_task", "[mindspeed-llm, posttrain_gpt.py]", "MindSpeed-LLM", Task.PRETRAIN, *STAGE_OF_TASK)

ADAPTERS = Rule(
    "mindspeed_adapters",
    "[mindspeed-llm, features_manager/finetune/lora.py; mindspeed-llm, dpo_trainer.py]",
    Sentence("adapters are of Megatron's layers, with a whole alpha, and of sft alone; dpo runs its reference model"),
    lambda w, b: every_row(b, unstartable(w) is not None),
    lambda w, s: Sentence("MindSpeed-LLM: {}", unstartable(w) or ""),
    job_only=True,
)

EXPERT_ADAPTERS = Rule(
    "mindspeed_expert_adapters",
    "[mindspeed-llm, features_manager/finetune/lora.py; mindspeed, moe_alltoall_overlap.py]",
    Sentence("adapters of experts need the dispatcher alltoall with etp = tp, and switches that alltoall_seq takes"),
    breaks_expert_adapters,
    why_no_expert_adapters,
)

COC_AND_ADAPTERS = FACTS("mindspeed_coc_adapters", Sentence("coc excludes adapters"))

SWAP_AND_ADAPTERS = FACTS("mindspeed_swap_adapters", Sentence("swap_attention excludes adapters"))

EMPTY_STAGES = Rule(
    "mindspeed_adapters_empty_stage",
    "[mindspeed-llm, features_manager/megatron_basic/training_basic.py]",
    Sentence("with adapters every virtual stage holds a layer"),
    lambda w, b: (
        layout_violates(w, b, lambda layout, _mtp, _model: min(map(min, layout)) == 0)
        if w.training.task.is_frozen
        else none_of(b)
    ),
    lambda w, s: Sentence(
        "a virtual stage of pp {} x vpp {} holds no-op layers alone, which MindSpeed-LLM refuses with adapters", s.pp, s.vpp
    ),
    reads_placement=True,
)

RULES = rules_in(globals())
