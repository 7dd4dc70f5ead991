"""The peer ring: the textbook ring over TCP on loopback, NumPy adding, what a program without a library would do.

AllReduce is a ReduceScatter and an AllGather of 2 (n - 1) steps (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", 2009); Broadcast and Reduce pass blocks along the ring. A step's data is sent
while the one before is received, and added block by block, so that it stays in the cache.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from epic_models.reference import numerics
from epic_testbed.cases import Array, Case, shard_bounds

_BLOCK: Final = 1 << 18
_BUFFER: Final = 4 << 20
_PATIENCE: Final = 60.0


def join(rank: int, ranks: int, config: dict[str, Any]) -> Ring:
    """Connect to the neighbours; `config["ports"]` has a free TCP port for each rank."""
    return Ring(rank, ranks, config["ports"])


class Ring:
    """One rank, with a connection to the next one and from the one before."""

    def __init__(self, rank: int, ranks: int, ports: list[int]) -> None:
        self._rank, self._ranks = rank, ranks
        with socket.create_server(("127.0.0.1", ports[rank])) as server:
            server.settimeout(_PATIENCE)
            self._next = _connected(ports[(rank + 1) % ranks])
            self._before, _ = server.accept()
        for end in (self._next, self._before):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._block = np.zeros(_BLOCK, np.uint8)

    def bind(self, case: Case, send: Array, recv: Array) -> Callable[[], object]:
        """The collective."""
        if case.primitive == "barrier":
            return self.barrier
        if case.datatype in numerics.HALVES and case.op != "-":
            raise NotImplementedError(f"ring: {case.op} of {case.dtype}")
        if case.primitive == "broadcast":
            return lambda: self._along(recv.view(np.uint8), case.root or 0)
        add = {"sum": np.add, "max": np.maximum, "min": np.minimum}.get(case.op, np.add)
        bounds = shard_bounds(case.count, self._ranks)
        if case.primitive == "all_reduce":
            return lambda: self._all_reduce(send, recv, add, bounds)
        if case.primitive == "reduce_scatter":
            whole = np.empty_like(send)
            return lambda: self._scattered(send, whole, recv, add, bounds)
        if case.primitive == "all_gather":
            return lambda: self._gathered(send, recv, bounds)
        whole = np.empty_like(send)

        def reduce() -> None:
            # An AllReduce whose result only the root keeps: a gather along a ring would pass no fewer links.
            self._all_reduce(send, recv if self._rank == case.root else whole, add, bounds)

        return reduce

    def barrier(self) -> None:
        """Twice round the ring: the second time everybody knows that everybody was there."""
        byte = np.zeros(1, np.uint8)
        for _ in range(2):
            if self._rank == 0:
                self._exchange(byte, None, None)
                self._exchange(None, byte, None)
            else:
                self._exchange(None, byte, None)
                self._exchange(byte, None, None)

    def profile(self) -> dict[str, float]:
        """Nothing is known."""
        return {}

    def close(self) -> None:
        """Close the connections."""
        self._selector.close()
        self._next.close()
        self._before.close()

    # ---------------------------------------------------------------------- inside

    def _all_reduce(self, send: Array, recv: Array, add: Any, bounds: list[int]) -> None:
        np.copyto(recv, send)
        self._reduce_scatter(recv, add, bounds, 0)
        self._all_gather(recv, bounds, 1)

    def _scattered(self, send: Array, whole: Array, recv: Array, add: Any, bounds: list[int]) -> None:
        np.copyto(whole, send)
        # One shard further back, so that the last to be complete is the rank's own.
        self._reduce_scatter(whole, add, bounds, -1)
        np.copyto(recv, whole[bounds[self._rank] : bounds[self._rank + 1]])

    def _gathered(self, send: Array, recv: Array, bounds: list[int]) -> None:
        np.copyto(recv[bounds[self._rank] : bounds[self._rank + 1]], send)
        self._all_gather(recv, bounds, 0)

    def _reduce_scatter(self, data: Array, add: Any, bounds: list[int], shift: int) -> None:
        for step in range(self._ranks - 1):
            out = self._shard(data, bounds, self._rank - step + shift)
            into = self._shard(data, bounds, self._rank - step - 1 + shift)
            self._exchange(out.view(np.uint8), into, add)

    def _all_gather(self, data: Array, bounds: list[int], shift: int) -> None:
        for step in range(self._ranks - 1):
            out = self._shard(data, bounds, self._rank - step + shift)
            into = self._shard(data, bounds, self._rank - step - 1 + shift)
            self._exchange(out.view(np.uint8), into.view(np.uint8), None)

    def _shard(self, data: Array, bounds: list[int], shard: int) -> Array:
        at = shard % self._ranks
        return data[bounds[at] : bounds[at + 1]]

    def _along(self, data: Array, root: int) -> None:
        """From the root to the rank before it, block by block."""
        last = (root - 1) % self._ranks
        for start in range(0, data.size, _BLOCK):
            block = data[start : start + _BLOCK]
            if self._rank != root:
                self._exchange(None, block, None)
            if self._rank != last:
                self._exchange(block, None, None)

    def _exchange(self, out: Array | None, into: Array | None, add: Any) -> None:
        """Send `out` to the next rank while `into` comes from the one before: put there, or combined by `add`."""
        item = 1 if into is None else into.itemsize
        left_out = memoryview(b"" if out is None else out)  # type: ignore[arg-type]
        wanted, got, held = 0 if into is None else into.nbytes, 0, 0
        target = None if into is None or add is not None else memoryview(into).cast("B")  # type: ignore[arg-type]
        block = memoryview(self._block)  # type: ignore[arg-type]
        until = time.monotonic() + _PATIENCE
        while len(left_out) or got < wanted:
            moved = False
            if len(left_out):
                try:
                    left_out = left_out[self._next.send(left_out) :]
                    moved = True
                except BlockingIOError:
                    pass
            if got < wanted:
                try:
                    if target is not None:
                        count = self._before.recv_into(target[got:])
                        got += count
                    else:
                        count = self._before.recv_into(block[held : min(_BLOCK, wanted - got + held)])
                        whole = (held + count) // item
                        assert into is not None
                        start = (got - held) // item
                        part = into[start : start + whole]
                        add(part, self._block[: whole * item].view(into.dtype), out=part)
                        got += count
                        held = held + count - whole * item
                        if held:
                            self._block[:held] = self._block[whole * item : whole * item + held]
                    if not count:
                        raise ConnectionError("ring: the rank before has gone")
                    moved = True
                except BlockingIOError:
                    pass
            if not moved:
                self._sleep(bool(len(left_out)), got < wanted, until)

    def _sleep(self, sends: bool, receives: bool, until: float) -> None:
        for end, events in (
            (self._next, selectors.EVENT_WRITE if sends else 0),
            (self._before, selectors.EVENT_READ if receives else 0),
        ):
            if end in self._selector.get_map():
                self._selector.unregister(end)
            if events:
                self._selector.register(end, events)
        if not self._selector.select(until - time.monotonic()):
            raise TimeoutError(f"ring: rank {self._rank} waited for its neighbours for {_PATIENCE:g} s")


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), _PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
