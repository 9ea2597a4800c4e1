"""Kernels by their names."""

from __future__ import annotations

import pytest

from calibration.traces.kernel_names import gpu_part, is_hccl, is_nccl, npu_part


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >()", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1_kernel0_0", "attention"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", "matmul"),
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "matmul"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>()", "matmul"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)", "vector"),
        ("triton_poi_fused_add_mul_silu_3", "vector"),
        ("void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<>()", "vector"),
        ("void house::mystery_kernel<int>(int*)", "other_kernels"),
    ],
)
def test_gpu_kernels(name: str, part: str) -> None:
    assert gpu_part(name) == part


@pytest.mark.parametrize(
    ("name", "core", "part"),
    [
        ("aclnnMatmul_MatMulV3Common_MatMulV3", "AI_CORE", "matmul"),
        ("aclnnGroupedMatmulV4_GroupedMatmul_GroupedMatmul", "MIX_AIC", "matmul"),
        ("aclnnFlashAttentionScoreGrad_FlashAttentionScoreGrad_FlashAttentionScoreGrad", "MIX_AIC", "attention"),
        ("aclnnRmsNormGrad_RmsNormGrad_RmsNormGrad", "AI_VECTOR_CORE", "vector"),
        ("HouseKernel", "AI_VECTOR_CORE", "vector"),
        ("HouseKernel", "AI_CORE", "other_kernels"),
    ],
)
def test_npu_kernels(name: str, core: str, part: str) -> None:
    assert npu_part(name, core) == part


def test_what_communicates() -> None:
    assert is_nccl("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")
    assert not is_nccl("void flash_fwd_kernel<>()")
    assert is_hccl("hcom_allReduce__628_0_1")
    assert not is_hccl("aclnnMatmul_MatMulV3Common_MatMulV3")
