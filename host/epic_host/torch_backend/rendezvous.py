"""How the ranks of a process group find their communicator: by a static plan, or by the manager over torch's store.

With a manager every rank puts the name of its host into the store; rank 0 creates the group and puts its name and join
token there, or why it could not. The token stands in the store in clear: whoever can read torch's store can join.
"""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from epic_host.communicator import Communicator
from epic_host.torch_backend import static
from epic_host.torch_backend.options import Options
from epic_spec.errors import EpicError, PeerLostError

_TICK = 0.05
_TOLD_SECONDS = 10.0


def communicator(
    options: Options, store: dist.Store, rank: int, ranks: tuple[int, ...], timeout: timedelta
) -> Communicator:
    """The communicator of rank `rank` of a process group of the default group's ranks `ranks`.

    `timeout` bounds the rendezvous, and is the deadline of its collectives. Raises ConfigError, ResourceError, and
    PeerLostError naming the ranks that did not come.
    """
    seconds = timeout.total_seconds()
    if options.group_file is not None:
        plan, transport = static.take(options.group_file, rank, ranks)
        return Communicator(rank, plan, transport, deadline=seconds, reproducible=options.reproducible)
    assert options.manager is not None
    return _joined(options.manager, options, store, rank, len(ranks), seconds)


def _joined(
    manager: str, options: Options, store: dist.Store, rank: int, size: int, seconds: float
) -> Communicator:
    until = time.monotonic() + seconds
    store.set(f"host/{rank}", options.host_name)
    if rank == 0:
        group, token = _create(manager, options, store, size, seconds)
    else:
        group, token = _created(store, until)
    return Communicator.join(
        manager,
        group,
        rank,
        join_token=token,
        host=options.host_name,
        credentials=options.credentials,
        timeout=max(1.0, until - time.monotonic()),
        reproducible=options.reproducible,
    )


def _create(manager: str, options: Options, store: dist.Store, size: int, seconds: float) -> tuple[str, str]:
    """Rank 0's part. What goes wrong goes into the store too, so that no other rank waits for nothing."""
    # Here, so that a static plan does without grpc.
    from epic_host.member import create_group

    try:
        hosts = _hosts(store, size, time.monotonic() + seconds)
        group, token = create_group(
            manager,
            hosts=hosts,
            name=f"torch-{uuid.uuid4().hex[:12]}",
            datatypes=options.datatypes,
            path=options.path,
            reproducible=options.reproducible,
            # A rank may compute for long between two collectives; one that died is found by its lease.
            deadline=seconds,
            lease=options.lease,
            credentials=options.credentials,
        )
    except EpicError as error:
        store.set("group", json.dumps({"error": str(error)}))
        _await_told(store, size)
        raise
    store.set("group", json.dumps({"group": group, "token": token}))
    return group, token


def _await_told(store: dist.Store, size: int) -> None:
    """Torch's store may end with this process: the others read first why there is no group."""
    until = time.monotonic() + _TOLD_SECONDS
    while store.add("told", 0) < size - 1 and time.monotonic() < until:
        time.sleep(_TICK)


def _hosts(store: dist.Store, size: int, until: float) -> list[str]:
    missing = list(range(size))
    while missing := [rank for rank in missing if not store.check([f"host/{rank}"])]:
        if time.monotonic() >= until:
            raise PeerLostError(
                f"process group epic: ranks {missing} did not come to the rendezvous", missing
            )
        time.sleep(_TICK)
    return [store.get(f"host/{rank}").decode() for rank in range(size)]


def _created(store: dist.Store, until: float) -> tuple[str, str]:
    """The other ranks' part."""
    while not store.check(["group"]):
        if time.monotonic() >= until:
            raise PeerLostError("process group epic: rank 0 did not create the group in time", (0,))
        time.sleep(_TICK)
    data: dict[str, Any] = json.loads(store.get("group"))
    store.add("told", 1)
    if "error" in data:
        raise EpicError(f"process group epic: rank 0 could not create the group: {data['error']}")
    return data["group"], data["token"]
