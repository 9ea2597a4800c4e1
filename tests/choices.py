"""Sets of switches and of recompute modules: each is drawn by itself, since of large integers high bits hardly ever are."""

from hypothesis import strategies as st

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.switches import Feature

any_features = st.sets(st.sampled_from(Feature)).map(lambda chosen: Feature(sum(chosen)))
any_modules = st.sets(st.sampled_from(RecomputeModule)).map(lambda chosen: RecomputeModule(sum(chosen)))
