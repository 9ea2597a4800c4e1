"""Scripts that start verl: what they state, worked out by hand, and what refuses them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.rl.service import rl_document
from documents.errors import InputError
from tests.commands import command
from tests.unit.app.recipes.recipes import GPU, MEGATRON, SHARDED, read


def test_a_megatron_recipe_states_the_whole_step(tmp_path: Path) -> None:
    found = read(tmp_path, MEGATRON).job
    assert found.job.workload.cluster.num_devices == 4 * 8
    assert found.job.workload.model.num_layers == 48  # Qwen3-30B-A3B
    section, layout, rollout = found.section, found.layout, found.rollout
    assert (section.prompts, section.samples, section.updates) == (256, 8, 256 // 64)
    assert (section.max_prompt_tokens, section.lengths.cap) == (2048, 4096)
    assert (section.algorithm, section.reference, section.old_log_prob, section.offload) == ("grpo", True, True, True)
    assert layout is not None
    assert (layout.tp, layout.pp, layout.vpp, layout.ep, layout.cp, layout.zero_stage) == (4, 2, 2, 8, 1, 1)
    # Twice the longest sample of 2,048 + 4,096 tokens.
    assert (layout.micro_batch_size, layout.batching, layout.pack_tokens, layout.recompute) == (2, "packed", None, True)
    assert layout.switches == {"overlap_grad_reduce": False, "overlap_param_gather": False}
    assert (rollout.tp, rollout.ep, rollout.memory_fraction, rollout.max_requests) == (2, None, 0.7, 256)
    assert rollout.execution == "graph"


def test_a_recipe_with_fsdp_has_ulysses_and_a_critic(tmp_path: Path) -> None:
    found = read(tmp_path, SHARDED).job
    section, layout, rollout = found.section, found.layout, found.rollout
    assert found.job.workload.cluster.num_devices == 16
    assert (section.algorithm, section.reference, section.samples, section.updates) == ("ppo", False, 1, 4)
    assert section.offload is False
    assert layout is not None
    assert (layout.tp, layout.pp, layout.cp, layout.cp_algo, layout.zero_stage) == (1, 1, 2, "ulysses", 3)
    assert (layout.micro_batch_size, layout.batching, layout.recompute) == (4, "samples", True)
    assert (rollout.tp, rollout.memory_fraction, rollout.execution) == (4, 0.5, "eager")
    assert found.job.workload.software.stack == "fsdp"
    assert read(tmp_path, SHARDED, hardware="atlas-800t-a3").job.job.workload.software.stack == "mindspeed-llm-fsdp2"


@pytest.mark.parametrize(
    ("was", "now", "batching"),
    [
        ("micro_batch_size_per_gpu=4", "micro_batch_size_per_gpu=8", (8, "samples", None)),
        ("ppo_micro_batch_size_per_gpu=4", "ppo_micro_batch_size=48", (6, "samples", None)),  # over 16 / 2 replicas
        ("ppo_micro_batch_size_per_gpu=4", "use_dynamic_bsz=True", (1, "packed", 2 * 16384)),
        ("critic.u", "actor_rollout_ref.model.use_remove_padding=False critic.u", (4, "padded", None)),
    ],
)
def test_micro_batches_have_samples_or_tokens(tmp_path: Path, was: str, now: str, batching: tuple[int, str, int]) -> None:
    layout = read(tmp_path, SHARDED.replace(was, now)).job.layout
    assert layout is not None
    assert (layout.micro_batch_size, layout.batching, layout.pack_tokens) == batching


def test_ends_of_the_pipeline_can_differ(tmp_path: Path) -> None:
    changed = MEGATRON.replace("virtual_pipeline_model_parallel_size=2", "virtual_pipeline_model_parallel_size=null")
    text = changed.replace("pipeline_model_parallel_size=2", "pipeline_model_parallel_size=4").replace(
        "$@", "+actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_last_pipeline_stage=9 $@"
    )
    layout = read(tmp_path, text).job.layout
    assert layout is not None
    assert (layout.vpp, layout.stage_layers) == (1, [13, 13, 13, 9])


def test_weights_can_be_sharded_over_a_part_of_the_devices(tmp_path: Path) -> None:
    """A shard of eight holds two of sixteen devices' worth of copies, so that a device holds twice the states."""
    whole = rl_document(read(tmp_path, SHARDED).job)
    part = read(tmp_path, SHARDED.replace("critic.u", "actor_rollout_ref.actor.fsdp_config.fsdp_size=8 critic.u")).job
    assert part.layout is not None
    assert part.layout.shard_size == 8
    states = 7.6e9 * 16 / 16  # FP32 weights, gradients and two moments, over all devices
    assert rl_document(part).training_peak_memory_bytes - whole.training_peak_memory_bytes == pytest.approx(states, rel=0.05)


ASYNCHRONOUS = SHARDED.replace("verl.trainer.main_ppo", "verl.experimental.fully_async_policy.fully_async_main").replace(
    "adv_estimator=gae", "adv_estimator=grpo"
)


def test_a_rollout_pool_of_its_own_runs_ahead(tmp_path: Path) -> None:
    pools = "rollout.nnodes=3 rollout.n_gpus_per_node=8 async_training.staleness_threshold=0.3 async_training.require_batches=2"
    text = ASYNCHRONOUS.replace("trainer.nnodes", f"{pools} trainer.nnodes")
    section = read(tmp_path, text).job.section
    assert (section.placement, section.rollout_devices, section.train_devices) == ("separate", 24, 16)
    assert (section.prompts, section.updates) == (128 * 2 * 4, 8)  # the weights are exchanged every four rounds by default
    assert (section.staleness.leftover_fraction, section.staleness.partial, section.old_log_prob) == (0.3, True, False)
    for threshold, steps in (("0", 0), ("2", 2)):
        staleness = read(tmp_path, text.replace("threshold=0.3", f"threshold={threshold}")).job.section.staleness
        assert (staleness.steps, staleness.leftover_fraction, staleness.partial) == (steps, None, steps > 0)
    with pytest.raises(InputError, match=r"async_training.staleness_threshold: 1.5 batches"):
        read(tmp_path, text.replace("threshold=0.3", "threshold=1.5"))
    both = " ".join(f"actor_rollout_ref.actor.fsdp_config.{part}_offload=True" for part in ("param", "optimizer"))
    with pytest.raises(InputError, match=r"fsdp_config.param_offload: states go to the host between tasks"):
        read(tmp_path, text.rstrip("\n") + f" {both}\n")


def test_one_step_off_is_one_step_stale(tmp_path: Path) -> None:
    text = SHARDED.replace("verl.trainer.main_ppo", "verl.experimental.one_step_off_policy.main_ppo")
    text = text.replace("trainer.nnodes=2", "rollout.nnodes=1 rollout.n_gpus_per_node=6 trainer.nnodes=1").replace(
        "trainer.n_gpus_per_node=8", "trainer.n_gpus_per_node=2"
    )
    found = read(tmp_path, text).job
    section = found.section
    assert found.job.workload.cluster.num_devices == 8
    assert (section.prompts, section.rollout_devices, section.train_devices) == (512, 6, 2)
    assert (section.staleness.steps, section.old_log_prob) == (1, False)
    assert (
        read(tmp_path, text.rstrip("\n") + " algorithm.rollout_correction.bypass_mode=False\n").job.section.old_log_prob is True
    )


def test_variables_and_devices_come_from_outside(tmp_path: Path) -> None:
    text = MEGATRON.replace("trainer.nnodes=4", "trainer.nnodes=$NODES")
    with pytest.raises(InputError, match=r"line 39: trainer.nnodes: .*--set NODES=VALUE does"):
        read(tmp_path, text)
    assert read(tmp_path, text, values=["NODES=8"]).job.job.workload.cluster.num_devices == 64


def test_a_model_is_named_by_its_folder_or_stated(tmp_path: Path) -> None:
    unknown = SHARDED.replace("Qwen/Qwen2.5-7B-Instruct", "/models/ours")
    with pytest.raises(InputError, match=r"actor_rollout_ref.model.path: '/models/ours' is no folder .* give --model NAME"):
        read(tmp_path, unknown)
    assert read(tmp_path, unknown, model="qwen3-8b").job.job.workload.model.num_layers == 36
    config = {
        "model_type": "llama", "num_hidden_layers": 3, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 1024,
        "vocab_size": 1000, "num_key_value_heads": 4,
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    assert read(tmp_path, unknown, files=[file]).job.job.workload.model.num_layers == 3
    for text, reason in ((json.dumps({**config, "vocab_size": "many"}), "vocab_size"), ("{", "config.json: not valid JSON")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=reason):
            read(tmp_path, unknown, files=[file])
    # The path in front of the last part may be the user's.
    home = SHARDED.replace("Qwen/Qwen2.5-7B-Instruct", "$HOME/models/Qwen2.5-7B-Instruct")
    assert read(tmp_path, home).job.job.workload.model.num_layers == 28


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            "actor_rollout_ref.model.lora_rank=32",
            "line 16: actor_rollout_ref.model.lora_rank: it decides which weights are trained",
        ),
        ("actor_rollout_ref.rollout.free_cache_engine=False", "it changes the memory"),
        ("actor_rollout_ref.rollout.multi_turn.enable=True", "it changes the step time"),
        ("actor_rollout_ref.actor.ppo_epochs=2", "it changes the step time"),
        ("algorithm.adv_estimator=remax", "algorithm.adv_estimator: it changes the step time"),
        ("actor_rollout_ref.actor.fsdp_config.fsdp_size=6", "6 does not divide 16 devices"),
        ("actor_rollout_ref.actor.fsdp_config.optimizer_offload=True", "in part, which is not priced"),
        ("actor_rollout_ref.model.path_=x", "no argument of verl 0.8; the nearest is actor_rollout_ref.model.path"),
        ("+actor_rollout_ref.model.torch_dtype=bfloat16", "what it changes is not known"),
        ("critic.ulysses_sequence_parallel_size=4", "it differs from the actor's, whose layout is priced"),
        ("critic.model.path=Qwen/Qwen2.5-3B", "not known to be of the policy's shape"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=100", "100 does not divide train_batch_size 512"),
        ("actor_rollout_ref.rollout.pipeline_model_parallel_size=2 actor_rollout_ref.rollout.name=vllm", "exclude each other"),
        ("actor_rollout_ref.actor.strategy=megatron", "megatron is not the backend of configuration ppo_trainer"),
        ("actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=700", "does not hold a"),
        ("data.max_prompt_length=many", "'many' is no integer"),
        ("trainer.nnodes=0", "0 is not allowed"),
        ("--config-name=mine", "is no configuration that verl ships"),
        ("actor_rollout_ref.rollout.max_model_len=1000", "1000 is below the longest prompt and answer"),
        ("trainer.device=npu", "the recipe runs on Ascend's devices, and"),
        ("trainer.n_gpus_per_node=16", "nodes have 16 devices, and those of"),
        ("~trainer.logger", "no override of a setting"),
    ],
)
def test_what_changes_the_step_and_is_not_priced_is_refused(tmp_path: Path, more: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        read(tmp_path, SHARDED.rstrip("\n") + f" \\\n    {more}\n")


OWN = """hydra:
  searchpath: [file://verl/trainer/config]
defaults:
  - ppo_trainer
  - _self_
data:
  train_batch_size: 256
  max_response_length: 2048
actor_rollout_ref:
  rollout:
    n: 3
"""


def test_a_configuration_of_ones_own_is_given_beside_the_script(tmp_path: Path) -> None:
    text = SHARDED.replace("main_ppo \\", "main_ppo --config-path=$PWD/own --config-name=mine \\").replace(
        "data.train_batch_size=512", ""
    )
    with pytest.raises(InputError, match=r"line 1: --config-name 'mine' .* give --with mine.yaml"):
        read(tmp_path, text)
    file = tmp_path / "mine.yaml"
    file.write_text(OWN, encoding="utf-8")
    section = read(tmp_path, text, files=[file]).job.section
    assert (section.prompts, section.samples, section.updates) == (256, 3, 2)
    assert section.lengths.cap == 1024  # the script's override holds
    file.write_text(OWN + "    multi_turn: {enable: true}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"actor_rollout_ref.rollout.multi_turn.enable: it changes the step time"):
        read(tmp_path, text, files=[file])
    file.write_text(OWN.replace("ppo_trainer", "theirs"), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine.yaml: defaults: .* give one of ppo_trainer, ppo_megatron_trainer"):
        read(tmp_path, text, files=[file])


ALONE = """defaults: [ppo_trainer, _self_]
data: {train_batch_size: 256, max_response_length: 2048}
actor_rollout_ref:
  model:
    path: Qwen/Qwen3-8B
  actor: {ppo_micro_batch_size_per_gpu: 2, ppo_mini_batch_size: 64, use_kl_loss: true}
  rollout: {n: 3, name: vllm}
algorithm: {adv_estimator: grpo}
trainer: {nnodes: 2, n_gpus_per_node: 8}
"""


def test_a_configuration_is_read_without_a_script(tmp_path: Path) -> None:
    found = read(tmp_path, ALONE, "mine.yaml").job
    assert (found.section.prompts, found.section.samples, found.section.updates, found.section.reference) == (256, 3, 4, True)
    assert found.job.workload.cluster.num_devices == 16
    with pytest.raises(InputError, match=r"line 6: actor_rollout_ref.model.lora_rank: it decides which weights are trained"):
        read(tmp_path, ALONE.replace("Qwen3-8B", "Qwen3-8B\n    lora_rank: 8"), "mine.yaml")
    with pytest.raises(InputError, match=r"defaults: \[\] is not allowed"):
        read(tmp_path, "actor_rollout_ref: {rollout: {n: 3}}\n", "mine.yaml")
    for base, placement in (("fully_async_ppo_trainer", "separate"), ("ppo_trainer", "fully-colocated")):
        section = read(tmp_path, ALONE.replace("ppo_trainer", base), "mine.yaml").job.section
        assert section.placement == placement


def test_a_program_that_is_not_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: verl.trainer.main_eval is not read"):
        read(tmp_path, "python3 -m verl.trainer.main_eval data.path=x\n")
    with pytest.raises(InputError, match=r"no command in it starts verl.trainer.main_ppo"):
        read(tmp_path, "echo nothing\n")
    with pytest.raises(InputError, match=r"lines 1 and 16 each start a training"):
        read(tmp_path, SHARDED + SHARDED.replace("n=1", "n=2").replace("nnodes=2", "nnodes=4"))


def test_an_ignored_setting_leaves_the_verdict_open(tmp_path: Path) -> None:
    text = SHARDED.rstrip("\n") + " actor_rollout_ref.model.lora_rank=32\n"
    name = "actor_rollout_ref.model.lora_rank"
    found = read(tmp_path, text, assume=[f"{name}=ignored"])
    assert rl_document(found.job).step_time_s == pytest.approx(rl_document(read(tmp_path, SHARDED).job).step_time_s, rel=1e-12)
    assert [name in one for one in found.ignored] == [True]
    path = tmp_path / "lora.sh"
    path.write_text(text, encoding="utf-8")
    flags = ("--hardware", GPU, "--mean-answer", "600", "--json")
    assert command("rl", "estimate", path, *flags).returncode == 2
    answer = json.loads(command("rl", "estimate", path, *flags, "--assume", f"{name}=ignored").stdout)
    assert answer["training_fits"] is None
    assert any(name in warning for warning in answer["warnings"])
    with pytest.raises(InputError, match=r"is nothing in .* that is not understood"):
        read(tmp_path, SHARDED, assume=[f"{name}=ignored"])
    with pytest.raises(InputError, match=r"give '?actor_rollout_ref.model.lora_rank'?=ignored"):
        read(tmp_path, text, assume=[f"{name}=0"])


def test_the_mean_answer_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --mean-answer"):
        read(tmp_path, SHARDED, mean=None)
    with pytest.raises(InputError, match="above the cap of 1024"):
        read(tmp_path, SHARDED, mean=2000.0)
    with pytest.raises(InputError, match="600 tokens of a prompt in the mean are above the recipe's longest prompt of 512"):
        read(tmp_path, SHARDED, mean_prompt=600.0)
    short = SHARDED.replace("max_prompt_length=512", "max_prompt_length=128")
    with pytest.raises(InputError, match=r"150 tokens of a prompt .* longest prompt of 128; give --mean-prompt"):
        read(tmp_path, short)
    assert read(tmp_path, short, mean_prompt=90.0).job.section.prompt_tokens == 90.0
    filtered = SHARDED.replace("verl.trainer.main_ppo", "recipe.dapo.main_dapo") + "algorithm.filter_groups.enable=True\n"
    filtered = filtered.replace("n_gpus_per_node=8\n", "n_gpus_per_node=8 ")
    with pytest.raises(InputError, match="give --kept-fraction"):
        read(tmp_path, filtered)
    assert read(tmp_path, filtered, kept_fraction=0.25).job.section.kept_fraction == 0.25
    with pytest.raises(InputError, match="filters no groups"):
        read(tmp_path, SHARDED, kept_fraction=0.25)


def test_the_command_line_prices_and_searches_a_script(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SHARDED, encoding="utf-8")
    done = command("rl", "estimate", path, "--hardware", GPU, "--mean-answer", "600")
    assert done.returncode == 0, done.stderr
    assert "a step" in done.stdout
    missing = command("rl", "estimate", path, "--mean-answer", "600")
    assert (missing.returncode, "cluster.hardware (--hardware)" in missing.stderr) == (2, True)
    searched = json.loads(command("rl", "search", path, "--hardware", GPU, "--mean-answer", "600", "--json").stdout)
    placements = {plan["placement"] for plan in searched["plans"]}
    assert {"fully-colocated", "separate"} <= placements
    job = tmp_path / "job.yaml"
    job.write_text("model: qwen3-8b\n", encoding="utf-8")
    refused = command("rl", "estimate", job, "--mean-answer", "600")
    assert (refused.returncode, "--mean-answer: only of a recipe" in refused.stderr) == (2, True)
