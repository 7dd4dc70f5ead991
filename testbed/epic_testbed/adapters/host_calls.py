"""The calls of `Communicator` as operations: which array sends, which receives, which is the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from epic_models.reference.collectives import Operation, plan
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import datatype_of
from epic_spec.errors import ConfigError
from epic_spec.tables import TAG_MODULUS, Operator

Array = np.ndarray[Any, np.dtype[Any]]
_OPERATORS = {"sum": Operator.SUM, "max": Operator.MAX, "min": Operator.MIN}


def operation(
    primitive: str, rank: int, params: GroupParams, calls: int, **arguments: Any
) -> tuple[Operation, Array | None]:
    """The operation of the `calls`-th collective of a group, and the array that its result is in (None: none).

    Arguments are those of the method of `Communicator`; raises ConfigError and ResourceError as it does.
    """
    given = dict(arguments)
    op = _OPERATORS[given.pop("op", "sum")] if primitive.startswith(("all_reduce", "reduce")) else None
    root = given.pop("root", 0) if primitive in ("reduce", "broadcast") else None
    reproducible = given.pop("reproducible", False)
    shards = given.pop("shards", None)
    send, recv = given.pop("send", None), given.pop("recv", None)
    if primitive == "broadcast":
        array = given.pop("array")
        send, recv, result = (array, None, array) if root == rank else (None, array, array)
    elif primitive == "barrier":
        result = None
    else:
        shards = _shards(primitive, send, recv, shards, params.world_size)
        send, recv = _arrays(primitive, rank, root, send, recv, shards)
        result = recv
    if given:
        raise ConfigError(f"{primitive}: unknown argument {next(iter(given))!r}")
    some = send if send is not None else recv
    work = plan(
        primitive,
        send,
        recv,
        operator=op,
        datatype=None if some is None else datatype_of(some.dtype),
        root=root,
        rank=rank,
        world_size=params.world_size,
        params=params,
        tag=calls % TAG_MODULUS,
        reproducible=reproducible,
        shards=shards,
    )
    return work, result


def _shards(
    primitive: str, send: Array, recv: Array | None, shards: Any, ranks: int
) -> tuple[int, ...] | None:
    if primitive not in ("reduce_scatter", "all_gather"):
        return None
    if shards is not None:
        return tuple(shards)
    whole = send if primitive == "reduce_scatter" or recv is None else recv
    small, more = divmod(whole.size, ranks)
    return tuple(small + (r < more) for r in range(ranks))


def _arrays(
    primitive: str,
    rank: int,
    root: int | None,
    send: Array,
    recv: Array | None,
    shards: tuple[int, ...] | None,
) -> tuple[Array, Array | None]:
    """(send, recv) of `plan`; without `recv` a collective is in place."""
    if primitive == "reduce" and root != rank:
        return send, None
    if recv is not None:
        return send, recv
    if shards is None:
        return send, send
    start = sum(shards[:rank])
    own = send.reshape(-1)[start : start + shards[rank]]
    return (send, own) if primitive == "reduce_scatter" else (own, send)
