"""Who contributes a payload, and who receives one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from epic_testbed.conformance.bench import SUM, Bench
from epic_testbed.conformance.case import case

BARRIER = Descriptor(Primitive.ALLREDUCE, Operator.NONE, Datatype.INT32, tag=2)
REDUCE = Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, tag=3)
BROADCAST = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.FP32, tag=4)

# Signalling and quiet NaNs of both signs, -0, infinities, subnormals, as FP32 and as FP16 in either byte order.
DELICATE = bytes.fromhex(
    "7f800001 ff800001 7fc00000 ffffffff 80000000 0000 8000 7f800000 ff800000 00000001 7c01 fe00 0100 0080"
)


def _children(bench: Bench, *, inner: bool = False) -> int:
    return min(3, bench.largest_fan_in(inner=inner))


@case("EPIC-E-05")
def barrier(bench: Bench) -> None:
    """NULL from every child: nothing before the last one, then NULL to every child."""
    children = _children(bench)
    bench.install(children)
    for cell in range(2 * bench.group.params.window):
        for child in range(children - 1):
            bench.contribute(child, cell, None, BARRIER)
        bench.expect_silence()
        bench.contribute(children - 1, cell, None, BARRIER)
        bench.expect_result(cell, None, BARRIER)


@case("EPIC-E-05", "EPIC-E-06")
def barrier_below_a_parent(bench: Bench) -> None:
    """NULL from every child makes a NULL partial, and a NULL result goes to every child."""
    children = _children(bench, inner=True)
    bench.install(children, inner=True)
    for cell in range(2 * bench.group.params.window):
        bench.contribute_all(cell, [None] * children, BARRIER)
        bench.expect_partial(cell, None, BARRIER)
        bench.result_from_parent(cell, None, BARRIER)
        bench.expect_result(cell, None, BARRIER)


@case("EPIC-E-05")
def null_adds_nothing(bench: Bench) -> None:
    """AllReduce with NULL from every choice of children, in both orders of arrival, for each operator: the
    result is that of the payloads alone. With NULL from all it is NULL.
    """
    children = _children(bench)
    bench.install(children)
    cell = 0
    values = [(-5, 7), (-9, 11), (-2, 3)][:children]
    reducers: dict[Operator, Callable[[tuple[int, ...]], int]]
    reducers = {Operator.SUM: sum, Operator.MAX: max, Operator.MIN: min}
    for operator, reduce in reducers.items():
        if operator.name not in bench.group.params.operators:
            continue
        what = replace(SUM, operator=operator)
        for mask in range(1 << children):
            for order in (range(children), range(children - 1, -1, -1)):
                with bench.trying(f"{operator.name}, payloads from {mask:0{children}b}, {order}"):
                    for child in order:
                        bench.contribute(child, cell, values[child] if mask >> child & 1 else None, what)
                        bench.sync()
                    given = [v for child, v in enumerate(values) if mask >> child & 1]
                    total = [reduce(column) for column in zip(*given, strict=True)] if given else None
                    bench.expect_result(cell, total, what)
                cell += 1


@case("EPIC-E-06")
def reduce_to_each_rank(bench: Bench) -> None:
    """Reduce to each rank of a root: its child receives the sum, the others NULL with the same descriptor.
    Reduce to a rank that is below no child: all receive NULL.
    """
    children = _children(bench)
    bench.install(children)
    for cell, rank in enumerate([*range(children), 0xFFFE, 0xFFFF]):
        what = replace(REDUCE, rank=rank)
        with bench.trying(f"Reduce to rank {rank}"):
            bench.contribute_all(cell, [(1 << c,) for c in range(children)], what)
            _only(bench, cell, ((1 << children) - 1,), what, [rank] if rank < children else [])


def _only(bench: Bench, cell: int, value: Sequence[float], what: Descriptor, children: Sequence[int]) -> None:
    """`children` receive the value, the others NULL."""
    for child in range(len(bench.group.children)):
        bench.expect_result(cell, value if child in children else None, what, children=[child])


@case("EPIC-E-06")
def reduce_below_a_parent(bench: Bench) -> None:
    """Reduce to each rank below an inner engine: the partial has the payload, and of the results that the
    parent's result becomes only that of the rank's child. Reduce to a rank elsewhere: the parent sends NULL,
    or the sum, and every child receives NULL.
    """
    children = _children(bench, inner=True)
    bench.install(children, inner=True)
    cell = 0
    for rank in range(children + 1):
        what = replace(REDUCE, rank=rank)
        for result in ((100,), None) if rank == children else ((100,),):
            with bench.trying(f"Reduce to rank {rank}, result {result}"):
                bench.contribute_all(cell, [(1 << c,) for c in range(children)], what)
                bench.expect_partial(cell, ((1 << children) - 1,), what)
                bench.result_from_parent(cell, result, what)
                _only(bench, cell, (100,), what, [rank] if rank < children else [])
            cell += 1


@case("EPIC-E-06", needs=(("children", 2), ("ports", 3)))
def reduce_with_engines_as_children(bench: Bench) -> None:
    """Child 0 is an engine with ranks 0 to 2, child 1 a host, rank 3, the parent has rank 4: Reduce to each
    of them. The child below which the rank is receives the payload, the other one NULL.
    """
    bench.install(inner=True, ranks_below=(3, 1))
    for cell, rank in enumerate(range(5)):
        what = replace(REDUCE, rank=rank)
        with bench.trying(f"Reduce to rank {rank}"):
            bench.contribute_all(cell, [(3,), (4,)], what)
            bench.expect_partial(cell, (7,), what)
            bench.result_from_parent(cell, (50,), what)
            _only(bench, cell, (50,), what, [0] if rank < 3 else [1] if rank == 3 else [])


@case("EPIC-E-06", "EPIC-E-05", "EPIC-E-16")
def broadcast_from_each_rank(bench: Bench) -> None:
    """Broadcast from each rank of a root, NULL from the others, the source first and last: every child
    receives the bytes as they are, NaNs, signed zeros and subnormals included.
    """
    children = _children(bench)
    bench.install(children)
    cell = 0
    for rank in range(children):
        for order in (range(children), range(children - 1, -1, -1)):
            what = replace(BROADCAST, rank=rank)
            with bench.trying(f"Broadcast from rank {rank}, {order}"):
                for child in order:
                    bench.contribute(child, cell, DELICATE if child == rank else None, what)
                bench.expect_result(cell, DELICATE, what)
            cell += 1


@case("EPIC-E-05", "EPIC-E-06", "EPIC-E-16")
def broadcast_below_a_parent(bench: Bench) -> None:
    """The source is below the engine: the bytes go up as they are. It is elsewhere: NULL goes up. In both
    cases the result's bytes reach every child as they are.
    """
    children = _children(bench, inner=True)
    bench.install(children, inner=True)
    for cell, rank in enumerate(range(children + 1)):
        what = replace(BROADCAST, rank=rank)
        with bench.trying(f"Broadcast from rank {rank}"):
            bench.contribute_all(cell, [DELICATE if c == rank else None for c in range(children)], what)
            bench.expect_partial(cell, DELICATE if rank < children else None, what)
            bench.result_from_parent(cell, DELICATE, what)
            bench.expect_result(cell, DELICATE, what)


@case("EPIC-E-16")
def explicit_identity(bench: Bench) -> None:
    """Ranks that are not the source contribute zeros of the source's length (the last cell of a run): the
    bytes of the source arrive as they are, for every datatype's name and any order of arrival.
    """
    children = _children(bench)
    bench.install(children)
    cell = 0
    for datatype in Datatype:
        for source in range(children):
            what = replace(BROADCAST, datatype=datatype, rank=source)
            with bench.trying(f"{datatype.name} from rank {source}"):
                for i in range(children):
                    child = (i + cell) % children
                    bench.contribute(child, cell, DELICATE if child == source else bytes(len(DELICATE)), what)
                    bench.sync()
                bench.expect_result(cell, DELICATE, what)
            cell += 1


@case("EPIC-E-16", "EPIC-E-12")
def broadcast_needs_no_arithmetic(bench: Bench) -> None:
    """A group that computes INT32 SUM alone: Broadcast cells of every datatype, and of MAX and MIN by name,
    with NULL and with zeros from the others, are combined all the same; so are Barriers and NULL cells of any
    operator.
    """
    bench.install(2, datatypes=("INT32",), operators=("SUM",))
    cell = 0
    for datatype in Datatype:
        for other in (None, bytes(len(DELICATE))):
            what = replace(BROADCAST, datatype=datatype, rank=0)
            with bench.trying(f"Broadcast of {datatype.name}"):
                bench.contribute_all(cell, [DELICATE, other], what)
                bench.expect_result(cell, DELICATE, what)
            cell += 1
    for operator in Operator:
        what = Descriptor(Primitive.ALLREDUCE, operator, Datatype.FP64, tag=5)
        with bench.trying(f"NULL {operator.name} FP64"):
            bench.contribute_all(cell, [None, None], what)
            bench.expect_result(cell, None, what)
        cell += 1


@case("EPIC-E-06", "EPIC-M3-08", "EPIC-M3-14", modes=(3,))
def replay_is_masked_too(bench: Bench) -> None:
    """Reduce to rank 1 is done; both children repeat their contributions: child 1 receives the sum again,
    child 0 NULL.
    """
    bench.install(2)
    what = replace(REDUCE, rank=1)
    bench.contribute_all(0, [(3,), (4,)], what)
    _only(bench, 0, (7,), what, [1])
    for child, value in ((0, None), (1, (7,)), (0, None)):
        bench.contribute(child, 0, (0,), what)
        bench.expect_result(0, value, what, children=[child])
        bench.expect_silence()
