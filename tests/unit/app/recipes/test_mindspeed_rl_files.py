"""Files of MindSpeed-RL: what they state, worked out by hand, and what refuses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from documents.errors import InputError
from tests.unit.app.recipes.recipes import GPU, MINDSPEED, NPU, read

OWN_MODEL = """ours:
  num_layers: 6
  hidden_size: 1024
  ffn_hidden_size: 4096
  num_attention_heads: 8
  group_query_attention: true
  num_query_groups: 4
  padded_vocab_size: 32000
  untie_embeddings_and_output_weights: true
  disable_bias_linear: true
  position_embedding_type: rope
  normalization: RMSNorm
  swiglu: true
"""


def test_a_file_states_the_whole_step(tmp_path: Path) -> None:
    found = read(tmp_path, MINDSPEED, "grpo.yaml", NPU).job
    section, layout, rollout = found.section, found.layout, found.rollout
    assert found.job.workload.cluster.num_devices == 128
    assert found.job.workload.model.num_layers == 94
    assert (section.prompts, section.samples, section.updates) == (256, 8, 2)
    assert (section.max_prompt_tokens, section.lengths.cap) == (8192, 8192)
    assert (section.algorithm, section.reference, section.queue, section.offload) == ("grpo", True, False, True)
    assert section.old_log_prob is True  # two updates a step
    assert layout is not None
    assert (layout.tp, layout.pp, layout.ep, layout.zero_stage) == (2, 16, 4 * 2, 1)  # experts beside tp, and over it
    # 96 layers over 16 stages, less an empty one in the first and one in the last.
    assert layout.stage_layers == [5, *[6] * 14, 5]
    assert (layout.recompute, layout.recompute_layers) == (True, 6)
    assert (layout.micro_batch_size, layout.batching) == (2, "samples")
    assert layout.switches == {
        **dict.fromkeys(("overlap_grad_reduce", "overlap_param_gather"), False),
        **dict.fromkeys(("swap_optimizer", "moe_alltoall_overlap_comm"), True),
    }
    assert (rollout.tp, rollout.ep, rollout.max_requests, rollout.memory_fraction) == (4, 4 * 8, 64, 0.85)
    assert rollout.execution == "eager"  # the class's default


@pytest.mark.parametrize(
    ("was", "now", "field", "value"),
    [
        # One update over all answers takes the old log-probabilities from it.
        ("mini_batch_size: 128", "mini_batch_size: 256", "old_log_prob", False),
        ("stage: ray_grpo", "stage: ray_dapo", "reference", False),
        ("blocking: true", "blocking: false", "queue", True),
        ("offload_train_grad: true\n  offload_train_param: true", "enforce_eager: true", "offload", False),
        ("max_model_len: 16384", "max_model_len: 4096", "lengths.cap", 4096),
    ],
)
def test_each_setting_decides_its_part(tmp_path: Path, was: str, now: str, field: str, value: object) -> None:
    section = read(tmp_path, MINDSPEED.replace(was, now, 1), "grpo.yaml", NPU).job.section
    found: object = section
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("more", "batching"),
    [
        ("use_remove_padding: false", (2, "padded", None)),
        ("use_dynamic_bsz: true\n  use_remove_padding: true\n  update_max_packing_token_size: 49152", (3, "packed", None)),
        ("use_dynamic_bsz: true\n  use_remove_padding: true\n  update_max_packing_token_size: 20000", (1, "packed", 20000)),
    ],
)
def test_micro_batches_have_samples_or_tokens(tmp_path: Path, more: str, batching: tuple[int, str, int]) -> None:
    layout = read(tmp_path, MINDSPEED.replace("use_remove_padding: true", more), "grpo.yaml", NPU).job.layout
    assert layout is not None
    assert (layout.micro_batch_size, layout.batching, layout.pack_tokens) == batching


def test_a_reference_of_its_own_has_devices_of_its_own(tmp_path: Path) -> None:
    text = MINDSPEED.replace("use_integrated_worker: true", "use_integrated_worker: false").replace(
        "  actor_resource:", "  reference_resource:\n    num_npus: 32\n  actor_resource:"
    )
    with pytest.raises(InputError, match="ref_config: missing"):
        read(tmp_path, text, "grpo.yaml", NPU)
    actor = text.partition("actor_config:\n")[2].partition("rl_config:")[0]
    apart = f"{text}ref_config:\n{actor}reward_config:\n  model: qwen3_235b_a22b\n"
    found = read(tmp_path, apart, "grpo.yaml", NPU).job
    assert found.job.workload.cluster.num_devices == 128 + 32
    assert (found.section.placement, found.section.train_devices) == ("train-infer-colocated", 128)
    head, _, tail = apart.partition("ref_config:")
    other = f"{head}ref_config:{tail.replace('pipeline_model_parallel_size: 16', 'pipeline_model_parallel_size: 8', 1)}"
    with pytest.raises(InputError, match=r"ref_config.pipeline_model_parallel_size: it differs from the actor's"):
        read(tmp_path, other, "grpo.yaml", NPU)


def test_the_model_is_in_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    dense = MINDSPEED.replace("qwen3_235b_a22b", "ours").replace("num_layers: 96", "num_layers: 7")
    dense = dense.replace('noop_layers: "5,95"', 'noop_layers: "6"').replace(
        "pipeline_model_parallel_size: 16", "pipeline_model_parallel_size: 1"
    )
    dense = dense.replace("expert_model_parallel_size: 4", "expert_model_parallel_size: 1").replace(
        "moe_tp_extend_ep: true", "finetune: true"
    )
    dense = dense.replace("enable_expert_parallel: true", "enforce_eager: true").replace(
        "infer_expert_parallel_size: 8", "infer_expert_parallel_size: 1"
    )
    with pytest.raises(InputError, match=r"give --with ours.yaml"):
        read(tmp_path, dense, "grpo.yaml", NPU)
    (tmp_path / "model" / "ours.yaml").write_text(OWN_MODEL, encoding="utf-8")
    shape = read(tmp_path, dense, "grpo.yaml", NPU).job.job.workload.model
    assert (shape.name, shape.num_layers, shape.hidden_size, shape.num_query_groups) == ("ours", 6, 1024, 4)
    (tmp_path / "model" / "ours.yaml").write_text(OWN_MODEL + "  cla_share_factor: 2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"ours.yaml: cla-share-factor: "):
        read(tmp_path, dense, "grpo.yaml", NPU)


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        ("blocking: true", "share_backbone: true", "rl_config.share_backbone: it decides which weights are trained"),
        ("blocking: true", "multi_turn_enable: true", "rl_config.multi_turn_enable: it changes the step time"),
        ("blocking: true", "epochs: 2", "line 34: rl_config.epochs: it changes the step time"),
        (
            "blocking: true",
            "bloking: true",
            "rl_config.bloking: no argument of mindspeed-rl master; the nearest is rl_config.blocking",
        ),
        ("blocking: true", "update_dynamic_max_batch_size: 4", "it changes step time and memory"),
        ("use_flash_attn: true", "use_flash_attn: false", "megatron_training.use_flash_attn: it is off"),
        ("sequence_parallel: true", "bf16: true", "megatron_training.sequence_parallel: it changes step time and memory"),
        ("max_num_seqs: 64", "torchair_graph: true", "generate_config.torchair_graph: it changes the step time"),
        ("moe_tp_extend_ep: true", "finetune: true", "experts are sliced and spread"),
        ("enable_expert_parallel: true", "enforce_eager: true", "8 without enable_expert_parallel"),
        ("offload_train_grad: true", "offload_train_grad: false", "moved to the host in part"),
        ("mini_batch_size: 128", "mini_batch_size: 100", "100 does not divide 256 prompts"),
        ("pipeline_model_parallel_size: 16", "pipeline_model_parallel_size: 97", "97 does not divide 96 layers"),
        ("recompute_method: block", "recompute_method: uniform", "actor_config.recompute_num_layers: it changes the memory"),
        ("stage: ray_grpo", "split: 100,0,0", "megatron_training.stage: missing"),
        ("num_npus: 128", "num_gpus: 128", "rl_config.actor_resource.num_npus: missing"),
        ("micro_batch_size: 2", "micro_batch_size: two", "'two' is no integer"),
        (
            "stage: ray_grpo",
            "stage: ray_dapo\n  lora_target_modules: [linear_qkv]",
            "lora_target_modules: it decides which weights",
        ),
        ("infer_tensor_parallel_size: 4", "infer_pipeline_parallel_size: 2", "infer_pipeline_parallel_size>1"),
    ],
)
def test_what_changes_the_step_and_is_not_priced_is_refused(tmp_path: Path, was: str, now: str, sentence: str) -> None:
    assert was in MINDSPEED
    with pytest.raises(InputError, match=re.escape(sentence)):
        read(tmp_path, MINDSPEED.replace(was, now, 1), "grpo.yaml", NPU)


def test_it_runs_on_ascend(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the recipe runs on Ascend's devices, and"):
        read(tmp_path, MINDSPEED, "grpo.yaml", GPU)


def test_a_filter_keeps_what_is_stated(tmp_path: Path) -> None:
    text = MINDSPEED.replace("blocking: true", "filter_groups_enable: true\n  filter_groups_train_batch_size: 128")
    with pytest.raises(InputError, match="give --kept-fraction"):
        read(tmp_path, text, "dapo.yaml", NPU)
    section = read(tmp_path, text, "dapo.yaml", NPU, kept_fraction=0.5).job.section
    assert (section.prompts, section.updates, section.kept_fraction, section.old_log_prob) == (128, 1, 0.5, False)


def test_a_critic_trains_as_the_actor(tmp_path: Path) -> None:
    critic = "critic_config:\n  model: qwen3_235b_a22b\n" + MINDSPEED.partition("actor_config:\n")[2].partition("rl_config:")[0]
    text = MINDSPEED.replace("ray_grpo", "ray_ppo").replace("group_norm", "gae").replace("rl_config:", f"{critic}rl_config:", 1)
    text = text.replace("  actor_resource:", "  critic_resource:\n    num_npus: 128\n  actor_resource:")
    text = text.replace("critic_config:\n  model: qwen3_235b_a22b\n  model", "critic_config:\n  model")
    text = text.replace("  num_layers: 96\n", "", 2).replace("actor_config:\n", "actor_config:\n  num_layers: 96\n", 1)
    assert read(tmp_path, text, "ppo.yaml", NPU).job.section.algorithm == "ppo"
    head, _, tail = text.partition("critic_config:")
    other = head + "critic_config:" + tail.replace("tensor_model_parallel_size: 2", "tensor_model_parallel_size: 4", 1)
    with pytest.raises(InputError, match=r"critic_config.tensor_model_parallel_size: it differs from the actor's"):
        read(tmp_path, other, "ppo.yaml", NPU)
