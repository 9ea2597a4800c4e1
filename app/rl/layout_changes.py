"""Changes of layout of a step as a document: parts, links and process groups."""

from __future__ import annotations

from app.rl.schemas import RlGroups, RlLink, RlSwitch, RlSwitches, RlSwitchPart
from cost_models.network.tiers import Network
from cost_models.post_training.shards import MovedShards
from cost_models.post_training.step import PostTraining, PostTrainingStep, layout_shards, layout_switches
from cost_models.post_training.switching import Doubtful, Switch


def switches_document(step: PostTraining, found: PostTrainingStep) -> RlSwitches:
    """Both changes of layout of a priced step."""
    shards, cluster = layout_shards(step), step.serving.cluster
    network = Network.of(cluster)
    both = layout_switches(step, found.training, found.to_rollout, shards)
    slowest = int(shards.tier_s(network).sum(axis=0).argmax())
    return RlSwitches(
        rank_order=step.switching.rank_order.value,
        to_rollout=_switch(both.to_rollout),
        to_train=_switch(both.to_train),
        shard_bytes=float(shards.wanted_bytes.max()),
        kept_bytes=float(shards.kept_bytes[slowest]),
        links=_links(shards, network, [tier.name for tier in cluster.profile.tiers], slowest),
        links_s=shards.wire_s(network),
        groups=[RlGroups(**vars(group)) for group in both.groups],
        training_communicator_bytes=both.training_communicator_bytes,
        rollout_communicator_bytes=both.rollout_communicator_bytes,
    )


def _links(shards: MovedShards, network: Network, names: list[str], slowest: int) -> list[RlLink]:
    seconds, means = shards.tier_s(network)[:, slowest], shards.received_bytes.mean(axis=1)
    rows = zip(names, shards.received_bytes[:, slowest].tolist(), means.tolist(), seconds.tolist(), strict=True)
    return [RlLink(tier=name, device_bytes=most, mean_bytes=mean, seconds=time) for name, most, mean, time in rows]


def _switch(change: Switch) -> RlSwitch:
    parts = [
        RlSwitchPart(part=part.name, device_bytes=part.device_bytes, count=part.count, **_seconds(part.each, part.first))
        for part in change.parts
    ]
    return RlSwitch(parts=parts, **_seconds(change.each, change.first))


def _seconds(each: Doubtful, first: Doubtful) -> dict[str, float]:
    named = {"seconds": each.value_s, "low_s": each.low_s, "high_s": each.high_s}
    return named | {"first_s": first.value_s, "first_low_s": first.low_s, "first_high_s": first.high_s}
