"""Layers on virtual stages in any way that keeps their order, stages of nothing among them, and where MTP modules run."""

from itertools import pairwise

from hypothesis import strategies as st

from cost_models.shapes.strategy import LayerLayout


@st.composite
def layouts(draw: st.DrawFn, num_layers: int, pp: int, vpp: int) -> LayerLayout:
    """Layers of each ``[chunk][stage]``, from 0 on."""
    cuts = draw(st.lists(st.integers(0, num_layers), min_size=pp * vpp - 1, max_size=pp * vpp - 1).map(sorted))
    counts = [after - before for before, after in pairwise([0, *cuts, num_layers])]
    return tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))


def most_before_head(layout: LayerLayout) -> int:
    """Virtual stages at the end without a layer behind the last: how far before the head MTP modules can run."""
    counts = [layers for row in layout for layers in row]
    return len(counts) - 1 - max(stage for stage, layers in enumerate(counts) if layers)


@st.composite
def placements(draw: st.DrawFn, num_layers: int, pp: int, vpp: int) -> tuple[LayerLayout, int]:
    """A layout, half of them with room behind the last layer, and ``mtp_before_head``."""
    empty = draw(st.integers(0, min(2, pp * vpp - 1)))
    counts = [layers for row in draw(layouts(num_layers, pp, vpp)) for layers in row]
    for stage in range(pp * vpp - empty, pp * vpp):
        counts[0], counts[stage] = counts[0] + counts[stage], 0
    layout = tuple(tuple(counts[chunk * pp : (chunk + 1) * pp]) for chunk in range(vpp))
    return layout, draw(st.integers(0, most_before_head(layout)))
