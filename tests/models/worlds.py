"""Random worlds: trees, sequences of collectives and faulty networks, each followed by the abstract machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from epic_models.reference.abstract import AbstractMachine
from epic_models.reference.collectives import plan as plan_collective
from epic_models.reference.diagnosis import diagnose
from epic_models.reference.driver import Member, run_members
from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams, GroupPlan, RankGroup
from epic_models.reference.interfaces import Agent, Cell, CellDelivered, CellFailed, Output
from epic_models.reference.network import LinkModel, Network
from epic_models.reference.operation import Operation
from epic_models.reference.registry import make_agent
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import CollectiveError, PeerLostError
from epic_spec.packets import Packet
from epic_spec.tables import Datatype, Operator

ALL_TYPES = ("INT32", "FP32", "FP16", "BF16", "INT8", "INT16", "INT64", "FP64")
NUMPY = {
    "INT32": np.int32, "FP32": np.float32, "FP16": np.float16, "BF16": ml_dtypes.bfloat16,
    "INT8": np.int8, "INT16": np.int16, "INT64": np.int64, "FP64": np.float64,
}  # fmt: skip
# `make verify` tries many times as many examples.
SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
EPSILON = {"FP32": 2.0**-24, "FP16": 2.0**-11, "BF16": 2.0**-8, "FP64": 2.0**-53}


class Followed:
    """An agent whose submissions and deliveries the abstract machine follows."""

    def __init__(self, agent: Agent, rank: int, machine: AbstractMachine) -> None:
        self.agent, self._rank, self._machine = agent, rank, machine

    def room(self) -> int:
        return self.agent.room()

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        for cell in cells:
            self._machine.contribute(self._rank, cell)
        return self._follow(self.agent.submit(cells, now))

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        return self._follow(self.agent.receive(port, packet, now))

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        return self._follow(self.agent.receive_frame(port, frame, now))

    def poll(self, now: float) -> Output:
        return self._follow(self.agent.poll(now))

    def next_deadline(self) -> float | None:
        return self.agent.next_deadline()

    def counters(self) -> dict[str, int]:
        return self.agent.counters()

    def _follow(self, output: Output) -> Output:
        for event in output.events:
            if isinstance(event, CellDelivered):
                self._machine.deliver(self._rank, event.cell, event.imm, event.payload)
            elif isinstance(event, CellFailed):
                self._machine.fail(self._rank, event.cell)
        return output


class World:
    """One group on its own network, with the abstract machine beside it."""

    def __init__(
        self,
        tree: Tree,
        params: GroupParams,
        faults: FaultRates | None = None,
        *,
        seed: int = 0,
        links: LinkModel | None = None,
    ) -> None:
        self.params = params
        self.machine = AbstractMachine(params)
        self.plan: GroupPlan = build_group(tree, params, seed=seed)
        self.net = Network([self.plan], faults, seed=seed, links=links, agents=self._agent)
        group = params.group
        self.members = [Member(self.net, group, r, self._diagnosis) for r in range(params.world_size)]

    def _agent(self, group: RankGroup) -> Agent:
        return Followed(make_agent(group), group.rank, self.machine)

    def _diagnosis(self, cell: int) -> CollectiveError:
        found = diagnose(self.plan, self.net.statuses(self.params.group), cell)
        return PeerLostError(found.text, found.ranks, found.edges)

    def call(self, rank: int, operation: Operation) -> None:
        self.members[rank].call(operation)

    def run(self, seconds: float = 30.0) -> bool:
        return run_members(self.net, self.members, seconds)

    def settle(self, seconds: float = 30.0) -> None:
        """Run to the end and require it: P4 as bounded liveness in virtual time."""
        done = self.run(seconds)
        waiting = [m.rank for m in self.members if not m.finished]
        assert done, f"P4: ranks {waiting} still wait after {seconds} s of virtual time"


@dataclass(frozen=True)
class Collective:
    """One collective that every rank calls, with its data."""

    primitive: str
    operator: str = "SUM"
    datatype: str = "INT32"
    count: int = 16
    root: int = 0
    seed: int = 0
    in_place: bool = False
    reproducible: bool = False

    def data(self, rank: int, world_size: int) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng([self.seed, rank])
        dtype = np.dtype(NUMPY[self.datatype])
        count = self.count * world_size if self.primitive == "reduce_scatter" else self.count
        if self.datatype.startswith("INT"):
            info = np.iinfo(dtype)
            return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        return rng.standard_normal(count).astype(dtype)


class Expectation:
    """The operation of every rank and what NumPy says must come out."""

    def __init__(self, collective: Collective, params: GroupParams, tag: int) -> None:
        self.collective, self.params = collective, params
        n = params.world_size
        self.inputs = [collective.data(r, n) for r in range(n)]
        self.outputs: list[np.ndarray[Any, Any] | None] = []
        self.operations: list[Operation] = []
        for rank in range(n):
            self._plan(rank, tag)

    def _plan(self, rank: int, tag: int) -> None:
        c, n = self.collective, self.params.world_size
        mine = self.inputs[rank].copy()
        shape = {"reduce_scatter": c.count, "all_gather": c.count * n}.get(c.primitive, c.count)
        out = np.zeros(shape, dtype=mine.dtype)
        send: np.ndarray[Any, Any] | None = mine
        recv: np.ndarray[Any, Any] | None = out
        if c.primitive in ("all_reduce", "reduce") and c.in_place:
            recv = mine
        if c.primitive == "broadcast":
            out[:] = mine if rank == c.root else 0
            send, recv = (out, None) if rank == c.root else (None, out)
        if c.primitive == "barrier":
            send = recv = None
        arithmetic = c.primitive in ("all_reduce", "reduce", "reduce_scatter")
        self.operations.append(
            plan_collective(
                c.primitive, send, recv,
                operator=Operator[c.operator] if arithmetic else None,
                datatype=None if c.primitive == "barrier" else Datatype[c.datatype],
                root=c.root if c.primitive in ("reduce", "broadcast") else None,
                rank=rank, world_size=n, params=self.params, tag=tag % 64, reproducible=c.reproducible,
            )
        )  # fmt: skip
        self.outputs.append(mine if recv is mine else out)

    def reduction(self) -> np.ndarray[Any, Any]:
        """The exact combination (integers wrap) or, for floats, in float64."""
        wide = self.inputs[0].dtype if self.collective.datatype.startswith("INT") else np.dtype(np.float64)
        total = self.inputs[0].astype(wide)
        for other in self.inputs[1:]:
            value = other.astype(wide)
            match self.collective.operator:
                case "SUM":
                    with np.errstate(over="ignore"):
                        total = total + value
                case "MAX":
                    total = np.maximum(total, value)
                case _:
                    total = np.minimum(total, value)
        return total

    def check(self) -> None:
        c, n = self.collective, self.params.world_size
        if c.primitive == "barrier":
            return
        if c.primitive in ("broadcast", "all_gather"):
            whole = self.inputs[c.root] if c.primitive == "broadcast" else np.concatenate(self.inputs)
            for rank, out in enumerate(self.outputs):
                assert out is not None
                assert out.tobytes() == whole.tobytes(), f"{c} rank {rank}"
            return
        total = self.reduction()
        for rank, out in enumerate(self.outputs):
            if c.primitive == "reduce" and rank != c.root:
                continue
            want = total[rank * c.count : (rank + 1) * c.count] if c.primitive == "reduce_scatter" else total
            assert out is not None
            self._compare(out, want, rank, n)

    def _compare(self, out: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rank: int, n: int) -> None:
        c = self.collective
        if c.datatype.startswith("INT") or c.operator != "SUM":
            assert np.array_equal(out.astype(want.dtype), want), f"{c} rank {rank}"
            return
        scale = max(1.0, float(np.max(np.abs(self.inputs), initial=0.0)))
        # n additions of values up to `scale`, one rounding of the result, and the fixed-point step.
        bound = n * n * scale * (EPSILON[c.datatype] + 2.0**-22)
        assert np.max(np.abs(out.astype(np.float64) - want), initial=0.0) <= bound, f"{c} rank {rank}"


# ------------------------------------------------------------------------------------------------- strategies


@st.composite
def trees(draw: Callable[[Any], Any], max_levels: int = 3, max_fan_in: int = 4, max_ranks: int = 10) -> Tree:
    """A random tree of 1 to `max_levels` levels; ranks in random places."""
    children: dict[str, tuple[int | str, ...]] = {}
    ranks = iter(range(max_ranks))
    left = [max_ranks]

    def node(name: str, level: int) -> None:
        fan = draw(st.integers(1, max_fan_in))
        kids: list[int | str] = []
        for i in range(fan):
            if level < max_levels and left[0] > 1 and draw(st.booleans()):
                kids.append(f"{name}{i}")
            elif left[0] > 0:
                left[0] -= 1
                kids.append(next(ranks))
        if not any(isinstance(k, int) for k in kids) and not any(isinstance(k, str) for k in kids):
            kids.append(next(ranks))
        children[name] = tuple(kids)
        for kid in kids:
            if isinstance(kid, str):
                node(kid, level + 1)

    try:
        node("s", 1)
    except StopIteration:
        return Tree("s", {"s": (0, 1)})
    return _numbered(children)


def _numbered(children: dict[str, tuple[int | str, ...]]) -> Tree:
    """Ranks renumbered 0, 1, … in the order they are met."""
    order = {
        old: new
        for new, old in enumerate(k for kids in children.values() for k in kids if isinstance(k, int))
    }
    renamed = {n: tuple(order[k] if isinstance(k, int) else k for k in kids) for n, kids in children.items()}
    return Tree("s", renamed)


def world_size(tree: Tree) -> int:
    """Ranks of a tree."""
    return len(tree.ranks_below(tree.root))


rates = st.builds(
    FaultRates,
    loss=st.sampled_from([0.0, 0.02, 0.1]),
    duplicate=st.sampled_from([0.0, 0.05, 0.2]),
    reorder=st.sampled_from([0.0, 0.05, 0.2]),
    corrupt=st.sampled_from([0.0, 0.02]),
)


@st.composite
def group_params(draw: Callable[[Any], Any], mode: int, n: int) -> GroupParams:
    """Random parameters of a mode."""
    window = draw(st.sampled_from([1, 2, 4, 8]))
    return GroupParams(
        group=1,
        mode=mode,
        world_size=n,
        window=window,
        slots=2 * window * draw(st.sampled_from([1, 2])),
        payload_bytes=draw(st.sampled_from([64, 128])),
        message_bytes=draw(st.sampled_from([64, 256, 320])),
        message_buffers=draw(st.sampled_from([b for b in (1, 2, 4, 8) if b <= window])),
        datatypes=draw(st.sampled_from([("INT32",), ALL_TYPES])),
        byte_order=draw(st.sampled_from(["big", "little"])),
        ack_reflection=mode == 3 and draw(st.booleans()),
        window_guard=draw(st.booleans()),
        conflict_record=draw(st.booleans()),
        ordered=mode == 1 and draw(st.booleans()),
        partial_format=draw(st.sampled_from(["input", "fp32"])),
        retry_limit=100,
        rto_initial_us=1000,
        rto_min_us=200,
        rto_max_us=5000,
        deadline_us=20_000_000,
    )


@st.composite
def collectives(draw: Callable[[Any], Any], params: GroupParams) -> Collective:
    """A random collective that the group can compute."""
    n = params.world_size
    datatype = draw(st.sampled_from(ALL_TYPES))
    operators = (
        ["SUM"] if "FP32" not in params.datatypes and datatype in ("INT64", "FP64") else ["SUM", "MAX", "MIN"]
    )
    return Collective(
        primitive=draw(
            st.sampled_from(["all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier"])
        ),
        operator=draw(st.sampled_from(operators)),
        datatype=datatype,
        count=draw(st.sampled_from([0, 1, 3, 15, 16, 17, 33, 100])),
        root=draw(st.integers(0, n - 1)),
        seed=draw(st.integers(0, 1000)),
        in_place=draw(st.booleans()),
        reproducible=draw(st.booleans()),
    )
