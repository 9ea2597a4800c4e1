"""The settings of a priced step for the frameworks that run it: in an answer, and as files of a folder."""

from __future__ import annotations

import json

from app.rl.job import RlJob
from app.rl.schemas import RlDocument, RlLaunch, RlSearchDocument
from app.text.json_documents import plain
from cost_models.post_training.step import PostTraining
from cost_models.shapes.layout import default_layout
from cost_models.shapes.strategy import Recompute, RecomputeMethod
from cost_models.shapes.switches import SWITCHES
from frameworks.post_training import mindspeed_rl, verl
from frameworks.post_training.plan import PostTrainingPlan

REPORT = "report.json"
WRITERS = (mindspeed_rl.write, verl.write)


def launches(job: RlJob, step: PostTraining) -> list[RlLaunch]:
    """The step for every framework: its file, or the reason why there is none."""
    plan = plan_of(job, step)
    return [
        RlLaunch(
            framework=found.framework,
            release=found.release,
            file_name=found.file_name,
            text=found.text,
            not_expressed=list(found.notes),
            refused=list(found.refused),
        )
        for found in (write(plan) for write in WRITERS)
    ]


def answer_files(document: RlDocument | RlSearchDocument) -> dict[str, str]:
    """Files of an answer's folder by name: the answer, and the best step for each framework that takes it."""
    best = document.best if isinstance(document, RlSearchDocument) else document
    files = {launch.file_name: launch.text for launch in best.launches if launch.text is not None}
    return {REPORT: json.dumps(plain(document), indent=1) + "\n", **files}


def plan_of(job: RlJob, step: PostTraining) -> PostTrainingPlan:
    """The chosen plan, in the form for writers."""
    model, cluster, chosen, layout = step.training.model, step.training.cluster, step.strategy, step.layout
    section, staleness = job.section, step.staleness
    layers = chosen.layer_layout or default_layout(model, chosen.pp, chosen.vpp, chosen.schedule)
    ahead = staleness.steps if staleness.leftover_fraction is None else staleness.leftover_fraction
    return PostTrainingPlan(
        model=model.name,
        placement=step.placement.value,
        stage_layers=tuple(sum(chunk[stage] for chunk in layers) for stage in range(chosen.pp)),
        has_experts=model.moe is not None,
        on_ascend=cluster.profile.family == "ascend",
        devices_per_node=cluster.profile.devices_per_node,
        train_devices=cluster.num_devices,
        rollout_devices=step.serving.cluster.num_devices,
        idle_devices=step.idle_train_devices,
        reference_devices=step.reference_devices,
        prompts=section.prompts,
        samples=section.samples,
        updates=section.updates,
        mean_prompt_tokens=section.prompt_tokens,
        max_response_tokens=section.lengths.cap,
        algorithm=section.algorithm,
        reference=step.algorithm.reference,
        reward_model=step.algorithm.reward_model,
        kept_fraction=step.algorithm.kept_fraction,
        staleness=float(ahead or 0.0),
        unbounded=ahead is None,
        partial=staleness.partial,
        queue=section.queue,
        offload=section.offload,
        tp=chosen.tp,
        pp=chosen.pp,
        cp=chosen.cp,
        ep=chosen.ep,
        vpp=chosen.vpp,
        micro_batch_size=chosen.micro_batch_size,
        zero_stage=chosen.zero_stage,
        recompute=chosen.recompute is Recompute.FULL,
        rollout_tp=layout.tp,
        rollout_pp=layout.pp,
        rollout_dp=layout.dp,
        rollout_ep=layout.ep,
        max_requests=step.max_requests or job.rollout.max_requests,
        memory_fraction=step.memory_fraction,
        precision=step.serving.engine.precision,
        cache_precision=step.serving.engine.cache_precision,
        captures_graphs=step.serving.engine.graph,
        draft_tokens=step.serving.engine.draft_tokens,
        scheduling=step.scheduling.value,
        longest_prompt_tokens=section.max_prompt_tokens,
        old_log_prob=step.algorithm.old_log_prob,
        batching=step.batching.value,
        pack_tokens=None if job.layout is None else job.layout.pack_tokens,
        recompute_layers=chosen.recompute_num_layers if chosen.recompute_method is RecomputeMethod.BLOCK else None,
        shard_size=chosen.optimizer_shard_size,
        cp_algo=chosen.cp_algo.label,
        switches=frozenset(str(feature.name).lower() for feature in SWITCHES if feature in chosen.features),
    )
