"""Collectives on NumPy arrays for one rank of a group: the interface for programs.

    udp = {"kind": "udp", "address": "127.0.0.10", "ports": {"127.0.0.101": 0}}
    with Communicator(rank, group, udp) as comm:
        comm.all_reduce(gradients)

All ranks of a group make the same calls in the same order.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.ranks import agent_on, load_agent, open_on, rank_path
from epic_host.handle import Handle
from epic_host.missing import Engines
from epic_host.runtime import Runtime
from epic_host.transport import Transport
from epic_host.transport.base import check_fit
from epic_models.reference.collectives import Planner
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import Agent
from epic_models.reference.numerics import array_dtype, datatype_of
from epic_models.reference.recorder import FileRecorder
from epic_spec.errors import AbortedError, ConfigError, EpicError
from epic_spec.tables import TAG_MODULUS, Datatype, Operator

if TYPE_CHECKING:
    # They need grpc, which a rank without a manager never imports.
    from epic_host.fast.profile import Profile
    from epic_host.managed import ManagedCommunicator
    from epic_host.member import Epoch
    from epic_host.security.tls import Tls

Array = NDArray[Any]

_OPERATORS = {"sum": Operator.SUM, "max": Operator.MAX, "min": Operator.MIN}


def shard_sizes(count: int, ranks: int) -> tuple[int, ...]:
    """Elements of each rank's shard by default: as `numpy.array_split` cuts `count` elements."""
    small, more = divmod(count, ranks)
    return tuple(small + (rank < more) for rank in range(ranks))


class Communicator:
    """One rank of `group`, over `transport` (open, or its configuration); both are closed by `close`.

    `deadline` in seconds (default: the group's): a collective without progress for that long fails with
    PeerLostError, which names the missing ranks and edges that the group's switches know of. `reproducible`
    is the default of the calls that have that argument. `trace` names a file for a recording of what this rank
    does, for `epic check tla --trace`; it is closed by `close`. `datapath`: "fast" works on batches of frames and in
    the callers' arrays, "reference" packet by packet; by default it is fast where that can be, which is in Modes II and
    III over UDP without a recording.

    Arrays are C-contiguous NumPy arrays, of any shape and size, of int8/16/32/64, float16/32/64 or
    `ml_dtypes.bfloat16`. Without `recv` a collective is in place. After an error an array that was to receive
    holds some of the old and some of the new elements.

    Every collective returns its result, or with `async_op=True` a Handle. It raises, before anything is
    sent, ConfigError for arguments that do not fit and ResourceError when the group's engines cannot compute
    it; and MismatchError when the ranks called different things, PeerLostError when one is missing,
    AbortedError after `abort` or `close`. These three end the communicator: all later calls raise them again.

    Construction raises ConfigError for a rank that the group does not have, for a data path that cannot be, or as
    `open_transport` does. It is for a group that stands still; `join` is for one that a manager looks after.
    """

    _recorder: FileRecorder | None = None

    def __init__(
        self,
        rank: int,
        group: GroupPlan,
        transport: Transport | Mapping[str, Any],
        *,
        deadline: float | None = None,
        reproducible: bool = False,
        trace: str | Path | None = None,
        datapath: str | None = None,
    ) -> None:
        if rank not in group.ranks:
            raise ConfigError(
                f"rank = {rank!r}, expected 0 to {group.params.world_size - 1} of group {group.params.group}"
            )
        params = group.params
        if deadline is not None:
            if not math.isfinite(deadline):
                raise ConfigError(f"deadline = {deadline}, expected a number of seconds")
            params = replace(params, deadline_us=round(deadline * 1e6))
        path = rank_path(datapath, params.mode, transport, recorded=trace is not None)
        if path == "fast":
            load_agent(params.mode, reflection=params.ack_reflection)
        opened = open_on(path, transport) if isinstance(transport, Mapping) else transport
        runtime: Runtime | None = None
        try:
            check_fit(params, (group.ranks[rank].edge,), opened)
            agent = agent_on(path, replace(group.ranks[rank], params=params))
            self._recorder = FileRecorder(Path(trace)) if trace is not None else None
            if self._recorder is not None:
                self._recorder.put_on_agent(agent)
            runtime = Runtime(agent, opened, Engines(group, rank), params.deadline_us * 1e-6, rank)
            runtime.begin()
        except BaseException:
            (runtime or opened).close()
            raise
        self._datapath = path
        self._stand_on(rank, params, reproducible, agent, opened, runtime)

    def _stand_on(
        self,
        rank: int,
        params: GroupParams,
        reproducible: bool,
        agent: Agent,
        transport: Transport,
        runtime: Runtime,
    ) -> None:
        """What the collectives need, however it was come by."""
        self.rank = rank
        self.world_size = params.world_size
        self._params = params
        self._reproducible = reproducible
        self._agent = agent
        self._transport = transport
        self._runtime = runtime
        self._planner = Planner(rank, params)
        # Calls of several threads come one after the other: the counter numbers them.
        self._calling = threading.Lock()
        self._calls = 0

    @classmethod
    def join(
        cls,
        manager: str,
        group: str,
        rank: int,
        *,
        join_token: str,
        host: str | None = None,
        credentials: Tls | None = None,
        timeout: float = 30.0,
        patience: float | None = None,
        reproducible: bool = False,
        transport: Mapping[str, Any] | None = None,
        trace: str | Path | None = None,
        datapath: str | None = None,
    ) -> ManagedCommunicator:
        """Rank `rank` of a group that `create_group` made at the manager at `manager`; waits for the other ranks.

        The manager gives the group a path: trees in the network, or the hosts. When it changes the path, because an
        engine or a link is lost or has become free, collectives in progress go on and end with the right result. A
        rank that is lost is named by PeerLostError at the others, which may `shrink`. The manager may be away
        meanwhile: collectives go on; only a path that fails then waits for it, `patience` seconds (default 30)
        beyond the group's deadline at most.

        `host`: the name of this host, to be held against what the group was created with. `credentials` where the
        manager wants a certificate. `transport` has entries of the transport's configuration that are this host's
        own, such as faults and capture; one of another kind than the manager's replaces it, but for the address.
        `trace` names a file for a recording; later epochs get files beside it, those on the host path none.
        `timeout` in seconds bounds the joining. `datapath` as of a Communicator; cells on the host path, or dealt over
        several trees, travel packet by packet in any case.

        Raises ConfigError and RefusedError as the manager or the transport refuses, ManagerUnreachableError, and
        DeadlineError when the group has no path in time.
        """
        from epic_host.managed import PATIENCE, ManagedCommunicator

        return ManagedCommunicator(
            manager,
            group,
            rank,
            join_token=join_token,
            host=host,
            credentials=credentials,
            timeout=timeout,
            patience=PATIENCE if patience is None else patience,
            reproducible=reproducible,
            transport=transport,
            trace=trace,
            datapath=datapath,
        )

    # ---------------------------------------------------------------------- collectives

    @overload
    def all_reduce(
        self, send: Array, op: str = ..., *, recv: Array | None = ..., reproducible: bool | None = ...,
        async_op: Literal[False] = ...,
    ) -> Array: ...  # fmt: skip

    @overload
    def all_reduce(
        self, send: Array, op: str = ..., *, recv: Array | None = ..., reproducible: bool | None = ...,
        async_op: Literal[True],
    ) -> Handle: ...  # fmt: skip

    def all_reduce(
        self,
        send: Array,
        op: str = "sum",
        *,
        recv: Array | None = None,
        reproducible: bool | None = None,
        async_op: bool = False,
    ) -> Any:
        """Element by element the `op` ("sum", "max", "min") of all ranks' `send`, into `recv` on every rank.

        `recv` has the shape of `send` (default: `send` itself). `reproducible`: bitwise independent of the
        order in which contributions arrive.
        """
        recv = _like(send, recv, "all_reduce")
        return self._call(
            "all_reduce", send, recv, recv, async_op, operator=_operator(op), reproducible=reproducible
        )

    @overload
    def reduce(
        self, send: Array, root: int = ..., op: str = ..., *, recv: Array | None = ...,
        reproducible: bool | None = ..., async_op: Literal[False] = ...,
    ) -> Array | None: ...  # fmt: skip

    @overload
    def reduce(
        self, send: Array, root: int = ..., op: str = ..., *, recv: Array | None = ...,
        reproducible: bool | None = ..., async_op: Literal[True],
    ) -> Handle: ...  # fmt: skip

    def reduce(
        self,
        send: Array,
        root: int = 0,
        op: str = "sum",
        *,
        recv: Array | None = None,
        reproducible: bool | None = None,
        async_op: bool = False,
    ) -> Any:
        """As `all_reduce`, but only rank `root` receives; the others get None, their `recv` is not used."""
        recv = _like(send, recv, "reduce") if root == self.rank else None
        return self._call(
            "reduce", send, recv, recv, async_op, operator=_operator(op), reproducible=reproducible, root=root
        )

    @overload
    def broadcast(self, array: Array, root: int = ..., *, async_op: Literal[False] = ...) -> Array: ...

    @overload
    def broadcast(self, array: Array, root: int = ..., *, async_op: Literal[True]) -> Handle: ...

    def broadcast(self, array: Array, root: int = 0, *, async_op: bool = False) -> Any:
        """The elements of `array` at rank `root` into `array` of every rank."""
        send, recv = (array, None) if root == self.rank else (None, array)
        return self._call("broadcast", send, recv, array, async_op, root=root)

    @overload
    def reduce_scatter(
        self, send: Array, op: str = ..., *, recv: Array | None = ..., shards: Sequence[int] | None = ...,
        reproducible: bool | None = ..., async_op: Literal[False] = ...,
    ) -> Array: ...  # fmt: skip

    @overload
    def reduce_scatter(
        self, send: Array, op: str = ..., *, recv: Array | None = ..., shards: Sequence[int] | None = ...,
        reproducible: bool | None = ..., async_op: Literal[True],
    ) -> Handle: ...  # fmt: skip

    def reduce_scatter(
        self,
        send: Array,
        op: str = "sum",
        *,
        recv: Array | None = None,
        shards: Sequence[int] | None = None,
        reproducible: bool | None = None,
        async_op: bool = False,
    ) -> Any:
        """The `op` of all ranks' `send`, cut into shards of which each rank receives its own.

        `shards` are the sizes in elements, in rank order (default: `shard_sizes(send.size, world_size)`).
        In place the result is this rank's shard of `send`, and a flat view of it is returned; the rest of
        `send` is kept.
        """
        _check_array(send, "reduce_scatter: send")
        sizes = self._shards(shards, send.size, "reduce_scatter: send")
        if recv is None:
            recv = self._shard_of(send, sizes)
        return self._call(
            "reduce_scatter", send, recv, recv, async_op,
            operator=_operator(op), reproducible=reproducible, shards=sizes,
        )  # fmt: skip

    @overload
    def all_gather(
        self, send: Array, *, recv: Array | None = ..., shards: Sequence[int] | None = ...,
        async_op: Literal[False] = ...,
    ) -> Array: ...  # fmt: skip

    @overload
    def all_gather(
        self, send: Array, *, recv: Array | None = ..., shards: Sequence[int] | None = ...,
        async_op: Literal[True],
    ) -> Handle: ...  # fmt: skip

    def all_gather(
        self,
        send: Array,
        *,
        recv: Array | None = None,
        shards: Sequence[int] | None = None,
        async_op: bool = False,
    ) -> Any:
        """Every rank's shard, in rank order, into `recv` of every rank.

        `send` is this rank's shard. In place `send` is the whole array, of which this rank's shard is its
        contribution. `shards` are the sizes in elements (default: `shard_sizes(recv.size, world_size)`).
        """
        _check_array(send, "all_gather: send")
        whole = send if recv is None else recv
        _check_array(whole, "all_gather: recv")
        sizes = self._shards(shards, whole.size, "all_gather: recv")
        own = self._shard_of(send, sizes) if recv is None else send
        return self._call("all_gather", own, whole, whole, async_op, shards=sizes)

    @overload
    def barrier(self, *, async_op: Literal[False] = ...) -> None: ...

    @overload
    def barrier(self, *, async_op: Literal[True]) -> Handle: ...

    def barrier(self, *, async_op: bool = False) -> Handle | None:
        """Ends when every rank has called it."""
        handle: Handle | None = self._call("barrier", None, None, None, async_op)
        return handle

    # ---------------------------------------------------------------------- life and death

    def abort(self) -> None:
        """End all collectives of this rank with AbortedError, at once and without asking anybody. Any thread.

        When it has returned, no array is written any more. The other ranks find this one missing.
        """
        self._runtime.fail(AbortedError(f"rank {self.rank} aborted the communicator"))

    def close(self) -> None:
        """End the communicator and close its transport; unfinished collectives get AbortedError."""
        self._runtime.close()
        if self._recorder is not None:
            self._recorder.close()

    @property
    def params(self) -> GroupParams:
        """What the members of the group agreed on."""
        return self._params

    @property
    def epochs(self) -> Sequence[Epoch]:
        """The epochs so far, oldest first, and why each began; without a manager there are none."""
        return ()

    @property
    def path(self) -> str:
        """How cells travel now, "network" or "host"; without a manager always the network."""
        return "network"

    @property
    def datapath(self) -> str:
        """ "fast" or "reference": how this rank works."""
        return self._datapath

    def profile(self) -> Profile | None:
        """Begin to measure where this rank's processor time goes. None where it works packet by packet."""
        if self._datapath != "fast":
            return None
        from epic_host.fast.profile import Profile

        return Profile(self._agent, self._transport)

    @property
    def failure(self) -> EpicError | None:
        """The error that ended the communicator, or None."""
        return self._runtime.failure

    def counters(self) -> dict[str, int]:
        """The agent's counters by the names of epic.toml, with what its transport dropped and sent."""
        counters = self._agent.counters()
        carried = self._transport.counters()
        received = carried.pop("rx_frames")
        for name, count in carried.items():
            counters[name] = counters.get(name, 0) + count
        counters["rx_frames"] = received
        return counters

    def faults(self) -> dict[str, int]:
        """How many sent frames were `lost`, `duplicated`, `reordered` and `corrupted` on purpose."""
        return self._transport.faults()

    def stats(self) -> dict[str, Any]:
        """`counters`, `faults`, and `retransmissions`: data packets that this rank sent again."""
        counters = self.counters()
        return {
            "counters": counters,
            "faults": self.faults(),
            "retransmissions": counters["tx_retransmission"],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------------- inside

    def _call(
        self,
        primitive: str,
        send: Array | None,
        recv: Array | None,
        result: Array | None,
        async_op: bool,
        **more: Any,
    ) -> Any:
        if async_op:
            return self._start(primitive, send, recv, result, False, **more)
        try:
            return self._start(primitive, send, recv, result, True, **more).result()
        except BaseException:
            # It may be a signal's, at any point: then nobody waits for the collective any more.
            self._runtime.waits_no_more()
            raise

    def _start(
        self,
        primitive: str,
        send: Array | None,
        recv: Array | None,
        result: Array | None,
        waits: bool,
        *,
        reproducible: bool | None = None,
        **more: Any,
    ) -> Handle:
        datatype = None
        for name, array in (("recv", recv), ("send", send)):
            if array is not None:
                datatype = _check_array(array, f"{primitive}: {name}", writes=name == "recv")
        with self._calling:
            if (failure := self._runtime.failure) is not None:
                raise failure.with_traceback(None)
            operation = self._planner.plan(
                primitive,
                send,
                recv,
                datatype=datatype,
                tag=self._calls % TAG_MODULUS,
                reproducible=self._reproducible if reproducible is None else reproducible,
                **more,
            )
            handle = Handle(operation.description, result, self._runtime.serve)
            self._runtime.start(operation, handle, waits)
            self._calls += 1
        return handle

    def _shards(self, shards: Sequence[int] | None, count: int, where: str) -> tuple[int, ...]:
        if shards is None:
            return shard_sizes(count, self.world_size)
        sizes = tuple(shards)
        if len(sizes) != self.world_size or min(sizes) < 0 or sum(sizes) != count:
            raise ConfigError(
                f"{where} has {count} elements and shards = {sizes}, expected {self.world_size} sizes "
                "that add up to it"
            )
        return sizes

    def _shard_of(self, array: Array, sizes: Sequence[int]) -> Array:
        start = sum(sizes[: self.rank])
        return array.reshape(-1)[start : start + sizes[self.rank]]


def _operator(op: str) -> Operator:
    if op not in _OPERATORS:
        raise ConfigError(f"op = {op!r}, expected one of {', '.join(_OPERATORS)}")
    return _OPERATORS[op]


def _like(send: Array, recv: Array | None, what: str) -> Array:
    """The array that receives; it must be as `send` is."""
    if recv is None or recv is send:
        return send
    _check_array(send, f"{what}: send")
    _check_array(recv, f"{what}: recv")
    if recv.shape != send.shape:
        raise ConfigError(f"{what}: recv has shape {recv.shape}, expected {send.shape} as send")
    return recv


def _check_array(array: object, where: str, writes: bool = False) -> Datatype:
    """The datatype of an array that a collective can use. Raises ConfigError."""
    if not isinstance(array, np.ndarray):
        raise ConfigError(f"{where} is a {type(array).__name__}, expected a NumPy array")
    datatype = datatype_of(array.dtype)
    if datatype is None:
        known = ", ".join(str(array_dtype(d)) for d in Datatype)
        raise ConfigError(f"{where} has dtype {array.dtype}, expected one of {known} in native byte order")
    if not array.flags.c_contiguous:
        raise ConfigError(
            f"{where} is not C-contiguous, expected a contiguous array (numpy.ascontiguousarray)"
        )
    if writes and not array.flags.writeable:
        raise ConfigError(f"{where} is read-only, expected an array that can be written")
    return datatype
