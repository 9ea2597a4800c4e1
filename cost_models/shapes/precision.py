"""Precisions of linear layers below 16 bits: how their operands are scaled, and what the scales take."""

from __future__ import annotations

from collections.abc import Mapping

from documents.late_methods import dataclass

EIGHT_BITS = ("fp8", "hif8")
FOUR_BITS = "nvfp4"
QUANTISED_PRECISIONS = (*EIGHT_BITS, FOUR_BITS)  # of linear layers; attention, router, embedding and head stay in 16 bits
FOUR_BIT_BYTES = 0.5 + 1 / 16  # of an element, with a scale of 8 bits for each 16 [transformer-engine, nvfp4_tensor_storage.py]
HIF8_RECIPE = "tensorwise"  # the only one that it runs with [mindspeed, transformer_engine_basic.py]
_VECTOR, _BLOCK = 128, 128**2  # elements with one FP32 scale: of activations and gradients, of weights
_GROUP = 32  # elements with one scale of 8 bits


@dataclass(frozen=True)
class Recipe:
    """How the operands of 8-bit matmuls are scaled [transformer-engine, recipe/__init__.py; mindspeed, te/pytorch/fp8/recipes].

    ``scale_bytes`` and ``weight_scale_bytes``: scales of one copy, for each element of an activation or gradient and of a weight.
    ``reads``: times that a cast reads its operand; once more where the largest value of the whole tensor decides the scale.
    ``casts_each_way``: scales run along one axis, so that a copy does not serve as its own transpose.
    ``gathered_bytes``: of a weight that a sharded optimizer gathers and keeps in 8 bits alone. Those in MXFP8 are gathered in
    BF16, through the buffer of gradients, and cast on each rank [megatron-0.19, param_and_grad_buffer.py:1150].
    """

    scale_bytes: float
    weight_scale_bytes: float
    reads: int
    casts_each_way: bool
    gathered_bytes: float = 1.0

    @property
    def is_delayed(self) -> bool:
        """Whether earlier steps decide the scale, which the cast then knows beforehand."""
        return self.reads == 1 and not self.casts_each_way


RECIPES: Mapping[str, Recipe] = {
    "delayed": Recipe(0.0, 0.0, 1, casts_each_way=False),  # the largest value of earlier steps
    "tensorwise": Recipe(0.0, 0.0, 2, casts_each_way=False),
    "blockwise": Recipe(4.0 / _VECTOR, 4.0 / _BLOCK, 1, casts_each_way=True),
    "mxfp8": Recipe(1.0 / _GROUP, 1.0 / _GROUP, 1, casts_each_way=True, gathered_bytes=2.0),
    # Blocks of weights are square, so that both directions could share the data; it is priced as two copies, as MXFP8.
    "mxfp8-32x32": Recipe(1.0 / _GROUP, 1.0 / _GROUP, 1, casts_each_way=True),
}
