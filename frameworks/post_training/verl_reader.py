"""Reads the overrides of verl's programs as the parts of a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.post_training.recipe import NamedModel, ReadRecipe, Settings, SettingsReader
from frameworks.post_training.verl import ACTOR, ADVANTAGE, OVERLAPS, ROLLOUT
from frameworks.release import read_release
from frameworks.unread import CHANGES

RELEASE = read_release(Path(__file__).parent / "verl_0.8.json")
REFERENCE, MODEL = "actor_rollout_ref.ref", "actor_rollout_ref.model"
MEGATRON, SHARDED = f"{ACTOR}.megatron", f"{ACTOR}.fsdp_config"
TRANSFORMER = f"{MEGATRON}.override_transformer_config"
DEGREES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "etp": "expert_tensor_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size",
}
ASYNCHRONOUS, ONE_STEP_OFF = "fully_async", "one_step_off"
# Programs that are read, and what the names of their configurations begin with.
PROGRAMS: Mapping[str, str] = {
    "verl.trainer.main_ppo": "",
    "recipe.dapo.main_dapo": "dapo",
    "recipe.fully_async_policy.fully_async_main": ASYNCHRONOUS,
    "verl.experimental.fully_async_policy.fully_async_main": ASYNCHRONOUS,
    "recipe.one_step_off_policy.main_ppo": ONE_STEP_OFF,
    "verl.experimental.one_step_off_policy.main_ppo": ONE_STEP_OFF,
}
_BACKENDS = {"trainer": "fsdp", "megatron_trainer": "megatron"}


def configurations(program: str) -> Mapping[str, str]:
    """The configurations that verl ships for a program, the one of a command that names none first, with their backends."""
    kind = PROGRAMS[program]
    lead = {"": "ppo", "dapo": "dapo"}.get(kind, f"{kind}_ppo")
    return {f"{lead}_{name}": backend for name, backend in _BACKENDS.items()}


_PASSES = Sentence("Passes without gradients are priced in the micro batches of the update.")
_REFERENCE = Sentence("The reference is priced with the actor's layout; its weights take neither memory nor time to load.")
_CRITIC = Sentence("The critic is priced as the actor, micro batches and offload included.")
_REWARD = Sentence("The reward model is priced as a pass of the training engine.")
_PREFILL = Sentence("Prefill is priced in passes of 8,192 tokens that share no prefixes.")
_FSDP_LOSS = Sentence(
    "The loss is priced as PyTorch's own, with logits in FP32; verl's keeps them in 16 bits, so that micro batches of many "
    "tokens take less memory than is said."
)
_LOSS = Sentence("The loss is priced as the framework's own.")
OTHERWISE: Mapping[str, str] = {
    **dict.fromkeys((f"{ROLLOUT}.log_prob_", f"{REFERENCE}.log_prob_"), _PASSES),
    **dict.fromkeys((f"{REFERENCE}.fsdp_config.", f"{REFERENCE}.megatron.", f"{REFERENCE}.use_torch_compile"), _REFERENCE),
    **dict.fromkeys(
        (
            *("critic.ppo_micro_batch_size", "critic.forward_micro_batch_size", "critic.ppo_max_token_len_per_gpu"),
            *("critic.forward_max_token_len_per_gpu", "critic.use_dynamic_bsz", "critic.megatron.", "critic.model.fsdp_config."),
            *("critic.model.enable_gradient_checkpointing", "critic.model.use_remove_padding", "critic.fsdp_config."),
        ),
        _CRITIC,
    ),
    **dict.fromkeys(
        (
            *("reward_model.model.use_remove_padding", "reward_model.model.fsdp_config.", "reward_model.megatron."),
            *("reward_model.rollout.", "reward_model.micro_batch_size", "reward_model.forward_max_token_len_per_gpu"),
            *("reward_model.use_dynamic_bsz", "reward_model.model.use_fused_kernels"),
        ),
        _REWARD,
    ),
    **dict.fromkeys(
        (f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.enable_chunked_prefill", f"{ROLLOUT}.enable_prefix_caching"), _PREFILL
    ),
    **dict.fromkeys(
        (
            *(f"{MODEL}.use_fused_kernels", f"{MODEL}.fused_kernel_options.", f"{ACTOR}.use_fused_kernels"),
            *(f"{ACTOR}.entropy_from_", f"{ACTOR}.entropy_checkpointing", f"{REFERENCE}.entropy_", f"{SHARDED}.entropy_"),
        ),
        _LOSS,
    ),
    f"{ACTOR}.entropy_coeff": _PASSES,
    f"{ROLLOUT}.engine_kwargs.sglang.attention_backend": Sentence("The rollout's attention is priced as a fused kernel."),
    f"{SHARDED}.forward_prefetch": Sentence("Weights are gathered beside the compute of the layer before."),
}


def read(settings: Settings, program: str, configuration: str) -> ReadRecipe:
    """The parts of a job that overrides state. Raises ``ReadingError``.

    ``configuration``: one of ``configurations`` of the program.
    """
    return _Reader(settings, program, configuration).recipe()


class _Reader(SettingsReader):
    def __init__(self, settings: Settings, program: str, configuration: str) -> None:
        super().__init__(RELEASE, settings, OTHERWISE)
        self._kind, shipped = PROGRAMS[program], configurations(program)[configuration]
        backend = str(self.value(f"{ACTOR}.strategy") or shipped)
        self._is_megatron = backend == "megatron"
        if self._is_megatron != (shipped == "megatron"):
            raise self.error(f"{ACTOR}.strategy", Sentence("{} is not the backend of configuration {}", backend, configuration))

    def recipe(self) -> ReadRecipe:
        """The parts of a job."""
        num_devices = self.count("trainer.nnodes") * self.count("trainer.n_gpus_per_node")
        post_training = self._algorithm()
        rolling = self._apart(post_training, num_devices)
        strategy = self._layout(num_devices)
        strategy |= self._micro_batches(strategy, num_devices)
        rollout = self._rollout()
        models = self._models(post_training)
        self._others()
        ends = (self._end_layers("first"), self._end_layers("last"))
        filters, device = self.on("algorithm.filter_groups.enable"), self.value("trainer.device")
        if broken := next(self.broken(), None):
            raise ReadingError(broken.rstrip("."))
        return ReadRecipe(
            RELEASE,
            models,
            num_devices + rolling,
            self._devices_per_node(),
            post_training,
            strategy,
            rollout,
            self.not_understood(),
            tuple(self.assumed),
            fully_sharded=not self._is_megatron,
            filters=filters,
            on_npus=device == "npu",
            end_layers=ends,
        )

    def _devices_per_node(self) -> int | None:
        """Devices of a node, if both pools have as many."""
        each = self.count("trainer.n_gpus_per_node")
        apart = self._kind in (ASYNCHRONOUS, ONE_STEP_OFF) and self.count("rollout.n_gpus_per_node") != each
        return None if apart else each

    def _end_layers(self, end: str) -> int | None:
        return self.number(f"{TRANSFORMER}.num_layers_in_{end}_pipeline_stage")

    def _algorithm(self) -> dict[str, Any]:
        """Tasks, batch and lengths. A critic trains with ``gae``, if nothing else is stated [verl-0.8, trainer/ppo/utils.py]."""
        mini = self.count(f"{ACTOR}.ppo_mini_batch_size")
        batch = self._prompts(mini)
        if batch % mini:
            raise self.error(f"{ACTOR}.ppo_mini_batch_size", Sentence("{} does not divide train_batch_size {}", mini, batch))
        estimator, stated = self.value("algorithm.adv_estimator"), "critic.enable" in self.given
        has_critic = self.on("critic.enable") if stated else estimator == ADVANTAGE["ppo"]
        reference = self.on("algorithm.use_kl_in_reward") | self.on(f"{ACTOR}.use_kl_loss")
        prompt, cap = self.count("data.max_prompt_length"), self.count("data.max_response_length")
        longest = self.number(f"{ROLLOUT}.max_model_len")
        if longest is not None and longest < prompt + cap:
            raise self.error(f"{ROLLOUT}.max_model_len", Sentence("{} is below the longest prompt and answer", longest))
        if has_critic and self.given.get("critic.ppo_mini_batch_size", (str(mini),)) != (str(mini),):
            self.refuse("critic.ppo_mini_batch_size", CHANGES["time"])
        self.asked.add("critic.ppo_mini_batch_size")
        return {
            "algorithm": "ppo" if has_critic else "grpo",
            "prompts": batch,
            "samples": self.count(f"{ROLLOUT}.n"),
            "max_prompt_tokens": prompt,
            "lengths": {"cap": cap},
            "updates": batch // mini,
            "reference": reference,
            "old_log_prob": not self._takes_rollout_log_probs(),
            "reward_model": self.on("reward_model.enable"),
            "placement": "fully-colocated",
            "offload": self._offload(),
        }

    def _prompts(self, mini: int) -> int:
        """Prompts between two updates of the rollout's weights [verl-0.8, fully_async_policy/README.md]."""
        if self._kind != ASYNCHRONOUS:
            return self.count("data.train_batch_size")
        self.asked |= {"data.train_batch_size", "data.gen_batch_size"}
        return mini * self.count("async_training.require_batches") * self.count("async_training.trigger_parameter_sync_step")

    def _takes_rollout_log_probs(self) -> bool:
        """Whether those of the rollout take the place of the old ones; in one-step-off by default."""
        if self._kind == ASYNCHRONOUS:
            return self.on("async_training.use_rollout_log_probs") and not self.on("async_training.compute_prox_log_prob")
        name = "algorithm.rollout_correction.bypass_mode"
        return self.on(name) or (self._kind == ONE_STEP_OFF and name not in self.given)

    def _apart(self, post_training: dict[str, Any], trained: int) -> int:
        """Devices of a rollout pool of its own, and how far it may run ahead."""
        if self._kind not in (ASYNCHRONOUS, ONE_STEP_OFF):
            return 0
        rolling = self.count("rollout.nnodes") * self.count("rollout.n_gpus_per_node")
        self.asked |= {"rollout.n", f"{ROLLOUT}.free_cache_engine"}
        if post_training["offload"]:
            section = MEGATRON if self._is_megatron else SHARDED
            self.refuse(f"{section}.param_offload", Sentence("states go to the host between tasks, which is not priced"))
        post_training |= {"placement": "separate", "rollout_devices": rolling, "train_devices": trained, "offload": False}
        post_training["staleness"] = {"steps": 1} if self._kind == ONE_STEP_OFF else self._ahead()
        return rolling

    def _ahead(self) -> dict[str, Any]:
        """A threshold below one is a part of a batch, and others are whole batches."""
        name = "async_training.staleness_threshold"
        threshold = self.value(name)
        assert isinstance(threshold, int | float)
        if threshold >= 1.0 and threshold != int(threshold):
            raise self.error(name, Sentence("{} batches; a part of one, or whole ones are priced", threshold))
        ahead = {"steps": int(threshold)} if threshold >= 1.0 or threshold == 0.0 else {"leftover_fraction": threshold}
        return {**ahead, "partial": self.on("async_training.partial_rollout") and threshold > 0.0}

    def _layout(self, num_devices: int) -> dict[str, Any]:
        return self._megatron_layout() if self._is_megatron else self._sharded_layout(num_devices)

    def _megatron_layout(self) -> dict[str, Any]:
        found = {name: self.number(f"{MEGATRON}.{setting}") or 1 for name, setting in DEGREES.items() if name != "etp"}
        etp = self.number(f"{MEGATRON}.{DEGREES['etp']}") or found["tp"]
        if etp > 1 and found["ep"] > 1:
            self.refuse(f"{MEGATRON}.{DEGREES['etp']}", Sentence("experts are sliced and spread, which has no price here"))
        if found["tp"] > 1 and not self.on(f"{MEGATRON}.sequence_parallel"):
            self.refuse(f"{MEGATRON}.sequence_parallel", CHANGES["cost"])
        recompute = self.value(f"{TRANSFORMER}.recompute_granularity")
        layers, method = (self.value(f"{TRANSFORMER}.recompute_{name}") for name in ("num_layers", "method"))
        if recompute == "selective":
            self.refuse(f"{TRANSFORMER}.recompute_granularity", CHANGES["cost"])
        if recompute == "full" and method == "uniform" and layers not in (None, 1):
            self.refuse(f"{TRANSFORMER}.recompute_num_layers", CHANGES["memory"])
        block = {"recompute_layers": layers} if recompute == "full" and method == "block" else {}
        return {
            **found,
            "zero_stage": int(self.on(f"{MEGATRON}.use_distributed_optimizer")),
            "recompute": recompute == "full",
            **block,
            "switches": {name: False for name in OVERLAPS if not self.on(f"{MEGATRON}.override_ddp_config.{name}")},
        }

    def _sharded_layout(self, num_devices: int) -> dict[str, Any]:
        """FSDP with Ulysses: weights are gathered again for the backward if they are freed."""
        self.assumed[_FSDP_LOSS] = None
        size = self.value(f"{SHARDED}.fsdp_size")
        in_part = isinstance(size, int) and 0 < size < num_devices
        if in_part and num_devices % int(str(size)):
            raise self.error(f"{SHARDED}.fsdp_size", Sentence("{} does not divide {} devices", size, num_devices))
        cp = self.count(f"{ACTOR}.ulysses_sequence_parallel_size")
        return {
            "cp": cp,
            **({"shard_size": size} if in_part else {}),
            **({"cp_algo": "ulysses"} if cp > 1 else {}),
            "zero_stage": 3 if self.on(f"{SHARDED}.reshard_after_forward") else 2,
            "recompute": self.on(f"{MODEL}.enable_gradient_checkpointing"),
        }

    def _micro_batches(self, layout: Mapping[str, Any], num_devices: int) -> dict[str, Any]:
        """Samples or tokens of a micro batch; those of a device are of each rank of cp [verl-0.8, dp_actor.py]."""
        cp = layout["cp"]
        packs = self.on(f"{MEGATRON}.use_remove_padding") if self._is_megatron else self.on(f"{MODEL}.use_remove_padding")
        self.asked.add(f"{MODEL}.use_remove_padding")
        if self.on(f"{ACTOR}.use_dynamic_bsz"):
            name = f"{ACTOR}.ppo_max_token_len_per_gpu"
            tokens = self.count(name) * cp
            longest = self.count("data.max_prompt_length") + self.count("data.max_response_length")
            self.asked |= {f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_micro_batch_size"}
            if tokens < longest:
                raise self.error(name, Sentence("a micro batch of {} tokens does not hold a sample of {}", tokens, longest))
            if not packs:
                self.refuse(f"{ACTOR}.use_dynamic_bsz", Sentence("samples are padded, and priced without"))
            if tokens % longest:
                return {"pack_tokens": tokens}
            return {"micro_batch_size": tokens // longest}
        self.asked.add(f"{ACTOR}.ppo_max_token_len_per_gpu")
        samples = self.number(f"{ACTOR}.ppo_micro_batch_size_per_gpu")
        whole = self.number(f"{ACTOR}.ppo_micro_batch_size")
        if samples is None and whole is not None:
            replicas = max(num_devices // (layout.get("tp", 1) * layout.get("pp", 1) * cp), 1)
            samples = whole // replicas
        if not samples:
            raise self.error(f"{ACTOR}.ppo_micro_batch_size_per_gpu", Sentence("missing, and samples are not packed by tokens"))
        return {"micro_batch_size": samples, "batching": "samples" if packs else "padded"}

    def _rollout(self) -> dict[str, Any]:
        tp, dp, ep, pp = (
            self.count(f"{ROLLOUT}.{name}")
            for name in (
                "tensor_model_parallel_size",
                "data_parallel_size",
                "expert_parallel_size",
                "pipeline_model_parallel_size",
            )
        )
        if ep not in (1, tp * dp) or (ep == 1 and dp > 1):
            self.refuse(f"{ROLLOUT}.expert_parallel_size", Sentence("experts are spread over {} of {} devices", ep, tp * dp))
        precision = self.value(f"{ROLLOUT}.quantization")
        self.value(f"{ROLLOUT}.name")
        if precision == "torchao":
            self.refuse(f"{ROLLOUT}.quantization", CHANGES["cost"])
        return {
            "tp": tp,
            "pp": pp,
            **({"ep": ep} if ep > 1 else {}),
            **({"precision": "fp8"} if precision == "fp8" else {}),
            "execution": "eager" if self.on(f"{ROLLOUT}.enforce_eager") else "graph",
            "max_requests": self.count(f"{ROLLOUT}.max_num_seqs"),
            "memory_fraction": self.value(f"{ROLLOUT}.gpu_memory_utilization"),
        }

    def _models(self, post_training: Mapping[str, Any]) -> tuple[NamedModel, ...]:
        names = [f"{MODEL}.path"]
        names += ["critic.model.path"] if post_training["algorithm"] == "ppo" else []
        names += ["reward_model.model.path"] if post_training["reward_model"] else []
        self.asked |= {"critic.model.path", "reward_model.model.path"}
        return tuple(NamedModel(name, self._path(name)) for name in names)

    def _path(self, name: str) -> str:
        """A path, of which the part behind the last slash has to be known."""
        self.asked.add(name)
        if name not in self.settings:
            return str(self.value(name))
        path = self.settings[name].text
        if self.settings[name].unknown and "$" in path.rpartition("/")[2]:
            raise self.error(name, self.settings[name].unknown)
        return path

    def _offload(self) -> bool:
        """Whether all states of training go to the host; a part of them has no price."""
        parts = ("param_offload", "grad_offload", "optimizer_offload")
        section = MEGATRON if self._is_megatron else SHARDED
        offloads = [self.on(f"{section}.{part}") for part in parts if self._is_megatron or part != "grad_offload"]
        if len(set(offloads)) > 1:
            self.refuse(f"{section}.optimizer_offload", Sentence("states are moved to the host in part, which is not priced"))
        return all(offloads)

    def _others(self) -> None:
        """What has to be as the actor has it."""
        self.on("actor_rollout_ref.hybrid_engine")
        for side in (REFERENCE, "critic"):
            names = {f"{side}.megatron.{one}": f"{MEGATRON}.{one}" for one in DEGREES.values()}
            names[f"{side}.ulysses_sequence_parallel_size"] = f"{ACTOR}.ulysses_sequence_parallel_size"
            for name, own in names.items():
                if name in self.given and self.value(name) != self.value(own):
                    self.refuse(name, Sentence("it differs from the actor's, whose layout is priced"))
            self._same_backend(f"{side}.strategy")

    def _same_backend(self, name: str) -> None:
        stated = self.value(name)
        if stated is not None and (stated == "megatron") != self._is_megatron:
            self.refuse(name, Sentence("it differs from the actor's, whose layout is priced"))
