"""Reads settings of MindSpeed-RL as the parts of a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.post_training.mindspeed_rl import SWITCHES
from frameworks.post_training.recipe import NamedModel, ReadRecipe, Settings, SettingsReader
from frameworks.release import Value, read_release
from frameworks.unread import CHANGES

RELEASE = read_release(Path(__file__).parent / "mindspeed_rl_recipes.json")
ACTOR, ALL, CRITIC = "actor_config", "megatron_training", "critic_config"
APART = ("ref_config", "reward_config")  # of workers that are not integrated
RL, ROLLOUT = "rl_config", "generate_config"
USUAL = ("use_flash_attn", "use_fused_rmsnorm", "use_fused_swiglu", "use_fused_rotary_pos_emb")  # kernels that are priced
_PASSES = Sentence("Passes without gradients are priced in the micro batches of the update.")
_PREFILL = Sentence("Prefill is priced in passes of 8,192 tokens that share no prefixes.")
OTHERWISE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *(f"{RL}.actor_forward_micro_batch_size", f"{RL}.ref_forward_micro_batch_size"),
            *(f"{RL}.actor_max_packing_token_size", f"{RL}.ref_max_packing_token_size", f"{RL}.max_packing_token_size"),
        ),
        _PASSES,
    ),
    **dict.fromkeys(
        (
            *(f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.enable_prefix_caching", f"{ROLLOUT}.num_scheduler_steps"),
            f"{ROLLOUT}.ascend_scheduler_config_enabled",
        ),
        _PREFILL,
    ),
}


def read(settings: Settings, shape: ModelShape, slots: int) -> ReadRecipe:
    """The parts of a job that settings state. Raises ``ReadingError``.

    ``shape``: of the policy, whose layers and no-op layers fill ``slots``.
    """
    return _Reader(settings, shape, slots).recipe()


class _Reader(SettingsReader):
    def __init__(self, settings: Settings, shape: ModelShape, slots: int) -> None:
        super().__init__(RELEASE, settings, OTHERWISE)
        self._shape, self._slots = shape, slots
        self._is_ppo = self._training("stage") == "ray_ppo"

    def recipe(self) -> ReadRecipe:
        """The parts of a job."""
        if self._training("stage") is None:
            raise ReadingError(Sentence("{}.stage: missing, and it names the algorithm", ALL))
        self._training("model")
        actors = self.count(f"{RL}.actor_resource.num_npus")
        aside = self._reference_devices()
        post_training = self._algorithm()
        if aside:
            post_training |= {"placement": "train-infer-colocated", "train_devices": actors}
        strategy = self._layout()
        rollout = self._rollout()
        if self._is_ppo:
            self._critic(actors)
            self._as_the_actor(CRITIC)
        if aside:
            self._workers_apart()
        if broken := next(self.broken(), None):
            raise ReadingError(broken.rstrip("."))
        return ReadRecipe(
            RELEASE,
            (NamedModel(f"{ACTOR}.model", self._shape.name),),
            actors + aside,
            None,
            post_training,
            strategy,
            rollout,
            self.not_understood(),
            tuple(self.assumed),
            filters=self.on(f"{RL}.filter_groups_enable"),
            on_npus=True,
            shape=self._shape,
        )

    def _training(self, name: str, section: str = ACTOR) -> Value:
        """A setting of one engine, or of all engines [mindspeed-rl, train_grpo.py]."""
        both = (f"{section}.{name}", f"{ALL}.{name}")
        self.asked |= set(both)
        return self.value(next((one for one in both if one in self.given), both[0]))

    def _at_least_one(self, name: str, section: str = ACTOR) -> int | None:
        value = self._training(name, section)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise self.error(f"{section}.{name}", Sentence("{} is not allowed; give at least 1", value))
        return value

    def _reference_devices(self) -> int:
        """Devices of the reference alone; workers that are not integrated need some [mindspeed-rl, validate_config.py]."""
        if self.on(f"{RL}.use_integrated_worker"):
            return 0
        return self.count(f"{RL}.reference_resource.num_npus")

    def _algorithm(self) -> dict[str, Any]:
        """Tasks, batch and lengths.

        The old log-probabilities are those of the update, if there is one over all answers. DAPO has no reference
        [mindspeed-rl, grpo_trainer_hybrid.py; dapo_trainer_hybrid.py; ppo_trainer_hybrid.py].
        """
        filters = self.on(f"{RL}.filter_groups_enable")
        generated, kept = self._at_least_one("global_batch_size"), self.count(f"{RL}.filter_groups_train_batch_size")
        if generated is None:
            raise self.error(f"{ALL}.global_batch_size", Sentence("missing"))
        prompts = kept if filters else generated
        mini = self.count(f"{RL}.mini_batch_size")
        if prompts % mini:
            raise self.error(f"{RL}.mini_batch_size", Sentence("{} does not divide {} prompts", mini, prompts))
        self.value(f"{RL}.adv_estimator")
        in_reward = self.on(f"{RL}.use_kl_in_reward") and self._is_ppo
        prompt, cap = self.count(f"{RL}.max_prompt_length"), self.count(f"{ROLLOUT}.sampling_config.max_tokens")
        return {
            "algorithm": "ppo" if self._is_ppo else "grpo",
            "prompts": prompts,
            "samples": self.count(f"{RL}.n_samples_per_prompt"),
            "max_prompt_tokens": prompt,
            "lengths": {"cap": min(cap, self.count(f"{ROLLOUT}.max_model_len"))},
            "updates": prompts // mini,
            "reference": self._training("stage") != "ray_dapo",
            "old_log_prob": prompts != mini or in_reward,
            "queue": not self.on(f"{RL}.blocking"),
            "placement": "fully-colocated",
            "offload": self._offload(),
        }

    def _offload(self) -> bool:
        """Whether all states go to the host; those of the optimizer are there already if it is swapped."""
        names = ["offload_train_grad", "offload_train_param"]
        swapped = bool(self._training("swap_optimizer"))
        self.asked.add(f"{ROLLOUT}.offload_train_optimizer")
        found = [self.on(f"{ROLLOUT}.{name}") for name in (*names, *([] if swapped else ["offload_train_optimizer"]))]
        if len(set(found)) > 1:
            self.refuse(f"{ROLLOUT}.offload_train_param", Sentence("states are moved to the host in part, which is not priced"))
        return all(found)

    def _layout(self) -> dict[str, Any]:
        """Degrees, stages, recompute and micro batches of the actor."""
        tp, pp, cp, ep = (
            self._at_least_one(f"{name}_parallel_size") or 1
            for name in ("tensor_model", "pipeline_model", "context", "expert_model")
        )
        if self._training("moe_tp_extend_ep"):
            ep *= tp
        elif ep > 1 and tp > 1:
            self.refuse(f"{ACTOR}.expert_model_parallel_size", Sentence("experts are sliced and spread, which has no price here"))
        if tp > 1 and not self._training("sequence_parallel"):
            self.refuse(f"{ALL}.sequence_parallel", CHANGES["cost"])
        if not self._training("bf16"):
            self.refuse(f"{ALL}.bf16", CHANGES["cost"])
        for name in USUAL:
            if not self._training(name):
                self.refuse(f"{ALL}.{name}", Sentence("it is off, and the kernel without it is not priced here"))
        algorithm = self._training("context_parallel_algo")
        return {
            **{"tp": tp, "pp": pp, "cp": cp, "ep": ep},
            **({"cp_algo": "ulysses" if algorithm == "ulysses_cp_algo" else "ring"} if cp > 1 else {}),
            **self._stages(pp),
            **self._recompute(),
            "zero_stage": int(bool(self._training("use_distributed_optimizer"))),
            "switches": self._switches(),
            **self._micro_batches(),
        }

    def _switches(self) -> dict[str, bool]:
        """Switches that differ from the usual ones."""
        found = {name: bool(self._training(name)) for name in SWITCHES}
        usual = {name: Feature[name.upper()] in DEFAULT_FEATURES for name in SWITCHES}
        return {name: is_on for name, is_on in found.items() if is_on != usual[name]}

    def _stages(self, pp: int) -> dict[str, Any]:
        """Virtual stages, and the layers of each stage; no-op layers have a place in one [mindspeed-llm, training_basic.py]."""
        each = self._at_least_one("num_layers_per_virtual_pipeline_stage")
        listed, noops = self._training("num_layer_list"), self._training("noop_layers")
        found: dict[str, Any] = {}
        if each is not None and pp > 1:
            if self._slots % (pp * each):
                raise self.error(
                    f"{ACTOR}.num_layers_per_virtual_pipeline_stage",
                    Sentence("{} does not divide {} layers over {} stages", each, self._slots, pp),
                )
            found["vpp"] = self._slots // (pp * each)
        if pp == 1:
            return {}
        if listed is not None:
            found["stage_layers"] = _integers(listed)
        elif noops is not None:
            if self._slots % pp:
                raise self.error(
                    f"{ACTOR}.pipeline_model_parallel_size", Sentence("{} does not divide {} layers", pp, self._slots)
                )
            slots, empty = self._slots // pp, _integers(noops)
            if found.get("vpp", 1) > 1:
                self.refuse(f"{ACTOR}.noop_layers", Sentence("empty layers of virtual stages are not priced here"))
            found["stage_layers"] = [slots - sum(at // slots == stage for at in empty) for stage in range(pp)]
        return found

    def _recompute(self) -> dict[str, Any]:
        granularity, method = self._training("recompute_granularity"), self._training("recompute_method")
        layers = self._at_least_one("recompute_num_layers")
        if granularity == "selective":
            self.refuse(f"{ACTOR}.recompute_granularity", CHANGES["cost"])
        if granularity != "full":
            return {"recompute": False}
        if method == "block":
            return {"recompute": True, "recompute_layers": layers or 1}
        if layers not in (None, 1):
            self.refuse(f"{ACTOR}.recompute_num_layers", CHANGES["memory"])
        return {"recompute": True}

    def _micro_batches(self) -> dict[str, Any]:
        """Samples or tokens of a micro batch [mindspeed-rl, base_training_engine.py]."""
        packs, dynamic = self.on(f"{RL}.use_remove_padding"), self.on(f"{RL}.use_dynamic_bsz")
        name = f"{RL}.update_max_packing_token_size"
        tokens = self.count(name)
        samples = self._at_least_one("micro_batch_size")
        if dynamic:
            longest = self.count(f"{RL}.max_prompt_length") + self.count(f"{ROLLOUT}.sampling_config.max_tokens")
            if not packs:
                self.refuse(f"{RL}.use_dynamic_bsz", Sentence("samples are padded, and priced without"))
            if tokens < longest:
                raise self.error(
                    name,
                    Sentence("{} tokens do not hold a sample of {}, which is a micro batch of its own then", tokens, longest),
                )
            return {"pack_tokens": tokens} if tokens % longest else {"micro_batch_size": tokens // longest}
        if samples is None:
            raise self.error(f"{ACTOR}.micro_batch_size", Sentence("missing"))
        return {"micro_batch_size": samples, "batching": "samples" if packs else "padded"}

    def _rollout(self) -> dict[str, Any]:
        tp, pp, ep = (self.count(f"{ROLLOUT}.infer_{name}_parallel_size") for name in ("tensor", "pipeline", "expert"))
        spread = self.on(f"{ROLLOUT}.enable_expert_parallel")
        if ep > 1 and not spread and self._shape.moe is not None:
            self.refuse(f"{ROLLOUT}.infer_expert_parallel_size", Sentence("{} without enable_expert_parallel", ep))
        self.value(f"{ROLLOUT}.dtype")
        return {
            **{"tp": tp, "pp": pp},
            **({"ep": ep * tp} if spread and ep * tp > 1 and self._shape.moe is not None else {}),
            "execution": "eager" if self.on(f"{ROLLOUT}.enforce_eager") else "graph",
            "max_requests": self.count(f"{ROLLOUT}.max_num_seqs"),
            "memory_fraction": self.value(f"{ROLLOUT}.gpu_memory_utilization"),
        }

    def _critic(self, actors: int) -> None:
        """The critic, which is priced on the actor's devices and with its layout."""
        if self.count(f"{RL}.critic_resource.num_npus") != actors:
            self.refuse(f"{RL}.critic_resource.num_npus", Sentence("it differs from the actor's, whose devices are priced"))

    def _workers_apart(self) -> None:
        """The reference's own settings; those of rewards by rule decide nothing."""
        reference, reward = APART
        if not any(name.startswith(f"{reference}.") for name in self.given):
            raise ReadingError(Sentence("{}: missing, and workers that are not integrated need it", reference))
        self._as_the_actor(reference)
        self.asked |= {name for name in self.given if name.startswith(f"{reward}.")}

    def _as_the_actor(self, section: str) -> None:
        """Refuse an engine whose layout differs from the actor's."""
        names = [name.partition(".")[2] for name in self.given if name.startswith((f"{section}.", f"{ACTOR}."))]
        for name in dict.fromkeys(names):
            if f"{ACTOR}.{name}" in self.asked and self._training(name, section) != self._training(name):
                self.refuse(f"{section}.{name}", Sentence("it differs from the actor's, whose layout is priced"))


def _integers(text: Value) -> list[int]:
    parts = str(text).split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ReadingError(Sentence("{} is no list of numbers", str(text)[:80]))
    return [int(part) for part in parts]
