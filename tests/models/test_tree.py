"""Trees become groups: edges mirror each other, numbers are distinct, wrong trees are refused by name."""

from __future__ import annotations

import pytest

from epic_models.reference.diagnosis import diagnose
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_models.reference.registry import make_engine
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import ConfigError, ResourceError

TREE = Tree("s", {"s": ("a", "b"), "a": (0, 1), "b": (2, 3)})
PARAMS = GroupParams(group=7, mode=3, world_size=4)


def test_both_ends_of_an_edge_agree() -> None:
    plan = build_group(TREE, PARAMS, seed=3)
    for name, entry in plan.engines.items():
        for child, edge in zip(plan.children[name], entry.children, strict=True):
            below = plan.ranks[child].edge if isinstance(child, int) else plan.engines[child].parent
            assert below is not None
            assert (below.local, below.peer) == (edge.peer, edge.local)
            assert (below.psn_tx, below.psn_rx) == (edge.psn_rx, edge.psn_tx)
            assert (below.name, below.ranks) == (edge.name, edge.ranks)
    assert plan.engines["s"].children[0].ranks == (0, 1)


def test_qpns_are_distinct_and_depend_on_the_seed_alone() -> None:
    def qpns(seed: int) -> list[int]:
        plan = build_group(TREE, PARAMS, seed=seed)
        edges = [e for g in plan.engines.values() for e in g.children]
        return [q for e in edges for q in (e.local.qpn, e.peer.qpn)]

    assert len(set(qpns(1))) == 12
    assert qpns(1) == qpns(1) != qpns(2)


def test_a_plan_survives_json() -> None:
    import json

    plan = build_group(TREE, PARAMS, control={"s": "unix:/tmp/s.sock"})
    assert GroupPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ({"s": ("a", "a"), "a": (0, 1, 2, 3)}, "'a' has two parents"),
        ({"s": ("a",), "a": ("s", 0)}, "'s' has two parents or is on a cycle"),
        ({"s": ("a", 0), "a": ()}, "'a' has no children"),
        ({"s": (0, 1, 2)}, r"ranks \[0, 1, 2\], expected each of 0 to 3"),
        ({"s": (0, 1, 2, 2)}, "expected each of 0 to 3 exactly once"),
    ],
)
def test_a_wrong_tree_is_refused_in_one_line(
    children: dict[str, tuple[int | str, ...]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_group(Tree("s", children), PARAMS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 3}, "window = 3, expected a power of two"),
        ({"window": 128}, "slots = 128, expected at least 2 x window = 256"),
        ({"payload_bytes": 100}, "payload_bytes = 100, expected a multiple of 64"),
        ({"mode": 4}, "mode = 4, expected a whole number from 1 to 3"),
        ({"icrc": "maybe"}, "icrc = 'maybe', expected one of full, none"),
        ({"datatypes": ("INT31",)}, "expected some of INT32"),
        ({"ordered": 1}, "ordered = 1, expected true or false"),
        ({"mode": 1, "message_buffers": 128}, "message_buffers = 128, expected at most window = 64"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GroupParams(**({"group": 7, "mode": 3, "world_size": 4} | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        ({"window": 32}, "window = 64, this engine offers at most 32"),
        ({"slots": 64}, "slots = 128, this engine offers at most 64"),
        ({"children": 1}, "fan-in 2, this engine offers 1 to 1"),
        ({"datatypes": ("FP32",)}, "datatypes has INT32, this engine offers FP32"),
        ({"icrc": ("none",)}, "icrc = full, this engine offers none"),
        ({"conflict_record": False}, "conflict_record is asked for"),
        ({"groups": 0}, "no room, this engine offers 0 groups"),
    ],
)
def test_an_engine_refuses_what_it_does_not_offer_and_changes_nothing(
    offer: dict[str, object], message: str
) -> None:
    engine = make_engine(3, EngineCapabilities(mode=3, **offer))  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match=message):
        engine.install(build_group(TREE, PARAMS).engines["s"], 0.0)
    assert engine.groups() == ()


def test_a_group_number_or_qpn_in_use_is_refused() -> None:
    engine = make_engine(3)
    entry = build_group(TREE, PARAMS).engines["s"]
    engine.install(entry, 0.0)
    with pytest.raises(ConfigError, match="group 7: already installed"):
        engine.install(entry, 0.0)
    other = build_group(TREE, GroupParams(group=8, mode=3, world_size=4)).engines["s"]
    with pytest.raises(ConfigError, match="is in use"):
        engine.install(other, 0.0)


def status(*slots: SlotStatus, failed: tuple[str, ...] = ()) -> GroupStatus:
    return GroupStatus(7, 0, slots, failed)


@pytest.mark.parametrize(
    ("statuses", "ranks", "edges"),
    [
        (
            {"s": status(SlotStatus(5, 0b10, False)), "a": status(SlotStatus(5, 0b01, False)), "b": status()},
            (1,),
            (),
        ),
        ({"s": status(), "a": status(), "b": status()}, (0, 1, 2, 3), ()),
        (
            {"s": status(SlotStatus(5, 0b10, False)), "a": None, "b": status(SlotStatus(5, 3, False))},
            (),
            ("a-s",),
        ),
        (
            {"s": status(SlotStatus(5, 0b10, False)), "a": status(SlotStatus(5, 3, False)), "b": status()},
            (),
            ("a-s",),
        ),
        (
            {"s": status(SlotStatus(5, 3, True)), "a": status(SlotStatus(5, 3, False)), "b": None},
            (),
            ("b-s",),
        ),
        # The root has gone on by a window, so cell 5 is complete there although no slot has it any more.
        ({"s": status(SlotStatus(69, 0b10, False)), "a": None, "b": status()}, (), ("a-s",)),
        ({"s": None, "a": status(), "b": status()}, (), ("s",)),
        ({"s": status(SlotStatus(5, 3, True), failed=("b-s",)), "a": status(), "b": status()}, (), ("b-s",)),
        ({"s": status(SlotStatus(5, 3, True)), "a": status(), "b": status()}, (), ()),
    ],
)
def test_the_missing_are_named(
    statuses: dict[str, GroupStatus | None], ranks: tuple[int, ...], edges: tuple[str, ...]
) -> None:
    found = diagnose(build_group(TREE, PARAMS), statuses, 5)
    assert (found.ranks, found.edges) == (ranks, edges), found.text
    assert "\n" not in found.text
