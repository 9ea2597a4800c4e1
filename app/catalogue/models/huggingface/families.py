"""Supported model families, by ``model_type`` and by class names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from app.catalogue.models.huggingface import deepseek, gemma, glm, gpt_oss, hunyuan, kin, llama, minimax, nemotron, pangu, qwen
from app.catalogue.models.huggingface.config import Config, Source
from cost_models.shapes.workload import ModelShape
from documents.late_methods import dataclass


@dataclass(frozen=True)
class Family:
    """A model family: the section of its file, the function that makes the shape, and its class names in ``architectures``."""

    section: type[Config]
    read: Callable[[Any, Source], ModelShape]
    architectures: tuple[str, ...]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the file that are read."""
        return frozenset(field.alias or name for name, field in self.section.model_fields.items())


FAMILIES: Mapping[str, Family] = {
    "llama": Family(llama.LlamaConfig, llama.llama, ("LlamaForCausalLM", "LLaMAForCausalLM")),
    "mistral": Family(llama.MistralConfig, llama.mistral, ("MistralForCausalLM",)),
    "phi3": Family(kin.Phi3Config, kin.phi3, ("Phi3ForCausalLM",)),
    "olmo2": Family(kin.Olmo2Config, kin.olmo2, ("Olmo2ForCausalLM",)),
    "smollm3": Family(kin.SmolLm3Config, kin.smollm3, ("SmolLM3ForCausalLM",)),
    "seed_oss": Family(kin.SeedOssConfig, kin.seed_oss, ("SeedOssForCausalLM",)),
    "mimo": Family(kin.MiMoConfig, kin.mimo, ("MiMoForCausalLM",)),
    "mixtral": Family(llama.MixtralConfig, llama.mixtral, ("MixtralForCausalLM",)),
    "qwen2": Family(qwen.QwenConfig, qwen.qwen2, ("Qwen2ForCausalLM",)),
    "qwen2_moe": Family(qwen.Qwen2MoeConfig, qwen.qwen2_moe, ("Qwen2MoeForCausalLM",)),
    "qwen3": Family(qwen.QwenConfig, qwen.qwen3, ("Qwen3ForCausalLM",)),
    "qwen3_moe": Family(qwen.QwenMoeConfig, qwen.qwen3_moe, ("Qwen3MoeForCausalLM",)),
    "qwen3_next": Family(qwen.Qwen3NextConfig, qwen.qwen3_next, ("Qwen3NextForCausalLM",)),
    "deepseek_v2": Family(deepseek.DeepseekV2Config, deepseek.deepseek, ("DeepseekV2ForCausalLM",)),
    "deepseek_v3": Family(deepseek.DeepseekV3Config, deepseek.deepseek, ("DeepseekV3ForCausalLM",)),
    "deepseek_v32": Family(deepseek.DeepseekV32Config, deepseek.indexed, ("DeepseekV32ForCausalLM",)),
    "glm_moe_dsa": Family(deepseek.GlmMoeDsaConfig, deepseek.indexed, ("GlmMoeDsaForCausalLM",)),
    "kimi_k2": Family(deepseek.DeepseekV3Config, deepseek.deepseek, ("KimiK2ForCausalLM",)),
    "chatglm": Family(glm.ChatGlmConfig, glm.chatglm, ("ChatGLMModel", "ChatGLMForConditionalGeneration")),
    "glm": Family(glm.GlmConfig, glm.glm, ("GlmForCausalLM",)),
    "glm4": Family(glm.GlmConfig, glm.glm4, ("Glm4ForCausalLM",)),
    "glm4_moe": Family(glm.Glm4MoeConfig, glm.glm4_moe, ("Glm4MoeForCausalLM",)),
    "gemma2": Family(gemma.Gemma2Config, gemma.gemma2, ("Gemma2ForCausalLM",)),
    "gemma3_text": Family(gemma.Gemma3Config, gemma.gemma3, ("Gemma3ForCausalLM",)),
    "gemma3": Family(gemma.Gemma3Config, gemma.gemma3, ("Gemma3ForConditionalGeneration",)),
    "gpt_oss": Family(gpt_oss.GptOssConfig, gpt_oss.gpt_oss, ("GptOssForCausalLM",)),
    "minimax": Family(minimax.MiniMaxConfig, minimax.minimax, ("MiniMaxForCausalLM",)),
    "minimax_text_01": Family(minimax.MiniMaxConfig, minimax.minimax, ("MiniMaxText01ForCausalLM",)),
    "minimax_m1": Family(minimax.MiniMaxConfig, minimax.minimax, ("MiniMaxM1ForCausalLM",)),
    "minimax_m2": Family(minimax.MiniMaxM2Config, minimax.minimax_m2, ("MiniMaxM2ForCausalLM",)),
    "nemotron_h": Family(nemotron.NemotronHConfig, nemotron.nemotron_h, ("NemotronHForCausalLM",)),
    "hunyuan_v1_dense": Family(hunyuan.HunyuanConfig, hunyuan.hunyuan_dense, ("HunYuanDenseV1ForCausalLM",)),
    "hunyuan_v1_moe": Family(hunyuan.HunyuanMoeConfig, hunyuan.hunyuan_moe, ("HunYuanMoEV1ForCausalLM",)),
    "internlm": Family(llama.InternLmConfig, llama.llama, ("InternLMForCausalLM",)),
    "internlm2": Family(llama.InternLm2Config, llama.internlm2, ("InternLM2ForCausalLM",)),
    "internlm3": Family(llama.InternLm3Config, llama.internlm3, ("InternLM3ForCausalLM",)),
    "baichuan": Family(llama.BaichuanConfig, llama.baichuan, ("BaichuanForCausalLM", "BaiChuanForCausalLM")),
    "PanguEmbedded": Family(pangu.PanguEmbeddedConfig, pangu.embedded, ("PanguEmbeddedForCausalLM",)),
    "PanguProMoE": Family(pangu.PanguProMoeConfig, pangu.pro_moe, ("PanguProMoEForCausalLM",)),
    "pangu_ultra_moe": Family(pangu.PanguUltraMoeConfig, pangu.ultra_moe, ("PanguUltraMoEForCausalLM",)),
}
SUPPORTED_MODEL_TYPES = tuple(FAMILIES)
BY_ARCHITECTURE: Mapping[str, str] = {
    architecture: model_type for model_type, family in FAMILIES.items() for architecture in family.architectures
}
