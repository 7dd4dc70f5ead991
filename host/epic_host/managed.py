"""A communicator whose path the manager chooses: on trees in the network, on the hosts, and over changes of both."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from epic_host.asking import Manager
from epic_host.communicator import Communicator
from epic_host.epoch_runtime import EpochRuntime
from epic_host.fast.datapath import MODES
from epic_host.fast.ranks import load_agents, open_on, rank_path
from epic_host.grants import Grant
from epic_host.manager.client import ManagerClient
from epic_host.member import Epoch, Member, check_host, path_of
from epic_host.security.tls import Tls
from epic_host.transport import Transport
from epic_models.reference.agent import AgentBase
from epic_models.reference.interfaces import Agent
from epic_models.reference.recorder import FileRecorder
from epic_spec.errors import ConfigError

log = logging.getLogger(__name__)

# Seconds without a result, beyond the deadline, that a rank waits for another path.
PATIENCE: Final = 30.0
# What a rank stays at most to pass on what others need of it.
_LINGER_SECONDS: Final = 1.0
_TICK: Final = 0.005


class ManagedCommunicator(Communicator):
    """What `Communicator.join` returns; see there."""

    def __init__(
        self,
        manager: str,
        group: str,
        rank: int,
        *,
        join_token: str,
        host: str | None = None,
        credentials: Tls | None = None,
        timeout: float = 30.0,
        patience: float = PATIENCE,
        reproducible: bool = False,
        transport: Mapping[str, Any] | None = None,
        trace: str | Path | None = None,
        datapath: str | None = None,
    ) -> None:
        if transport is not None and "address" in transport:
            raise ConfigError(
                f"transport: address = {transport['address']!r}, expected none: the manager gives it"
            )
        own = {"kind": "udp", **(transport or {})}
        if rank_path(datapath, MODES[-1], own, recorded=trace is not None) == "fast":
            # Whichever mode the manager chooses: the other ranks would wait for it.
            load_agents()
        until = time.monotonic() + timeout
        client = ManagerClient(manager, credentials, timeout=min(timeout, 5.0))
        try:
            if host is not None:
                check_host(client, group, rank, host)
            self._member = Member(client, group, rank, join_token, timeout)
        except BaseException:
            client.close()
            raise
        self._again: dict[str, Any] = {
            "host": host,
            "credentials": credentials,
            "patience": patience,
            "transport": transport,
        }
        self._again["datapath"] = datapath
        self._manager = manager
        self._trace = None if trace is None else Path(trace)
        self._recorders: list[FileRecorder] = []
        opened: Transport | None = None
        runtime: EpochRuntime | None = None
        try:
            config = _laid_over(self._member.transport, transport, self._member.address)
            # The mode is known with the first grant.
            path = rank_path(datapath, MODES[-1], config, recorded=trace is not None)
            opened = open_on(path, config)
            runtime = EpochRuntime(
                opened, Manager(self._member.report_fault, self._late, self._member.sure), patience, rank
            )
            self._epoch_runtime = runtime
            runtime.begin()
            self._member.follow(runtime, opened, self._record, path)
            grant = self._member.first_grant(until - time.monotonic())
            if path == "fast":
                path = rank_path(datapath, grant.params.mode, config)
        except BaseException:
            self._member.leave()
            if runtime is not None:
                runtime.close()
            elif opened is not None:
                opened.close()
            self._close_recorders()
            raise
        self._datapath = path
        self._stand_on(rank, grant.params, reproducible, runtime.epochs, opened, runtime)

    # ---------------------------------------------------------------------- what is so now

    @property
    def group(self) -> str:
        """Name of the group."""
        return self._member.group

    @property
    def path(self) -> str:
        """ "network" or "host": the path of the epoch that this rank is in, or was in last."""
        assert self._member.grant is not None
        return path_of(self._member.grant)

    @property
    def epochs(self) -> Sequence[Epoch]:
        """The epochs so far, oldest first."""
        return tuple(self._member.epochs)

    @property
    def decisions(self) -> Sequence[str]:
        """The manager's latest decisions about the group, as its log has them."""
        return tuple(self._member.decisions)

    def stats(self) -> dict[str, Any]:
        """As every communicator; and `epochs`, how many `repeated` contributions and `dropped` results they cost."""
        epochs = self._epoch_runtime.epochs
        more = {"path": self.path, "epoch": epochs.epoch, "epochs": len(self._member.epochs)}
        return super().stats() | more | {"repeated": epochs.repeated, "dropped": epochs.dropped}

    # ---------------------------------------------------------------------- life and death

    def shrink(self, timeout: float = 30.0) -> ManagedCommunicator:
        """The group of the ranks that are left, after PeerLostError; ranks are numbered anew, in the old order.

        Every survivor calls it. This communicator is closed. Raises RefusedError when the manager holds no rank to
        be lost, or this one, and as `join`.
        """
        until = time.monotonic() + timeout
        answer = self._member.shrink(timeout)
        joined = ManagedCommunicator(
            self._manager,
            answer.group,
            answer.rank,
            join_token=answer.join_token,
            timeout=max(0.1, until - time.monotonic()),
            reproducible=self._reproducible,
            **self._again,
        )
        self.close()
        return joined

    def close(self) -> None:
        """Leave the group, end the communicator and close its transport; unfinished collectives get AbortedError."""
        self._linger()
        self._member.leave()
        super().close()
        self._close_recorders()

    # ---------------------------------------------------------------------- inside

    def _linger(self) -> None:
        """On the host path ranks pass results on: stay until the neighbours have theirs."""
        until = time.monotonic() + _LINGER_SECONDS
        while self.failure is None and time.monotonic() < until:
            agent = self._epoch_runtime.epochs.agent
            if agent is None or getattr(agent, "settled", True) or self._epoch_runtime.epochs.outstanding:
                return
            time.sleep(_TICK)

    def _late(self) -> tuple[int, ...]:
        agent = self._epoch_runtime.epochs.agent
        waiting_for = getattr(agent, "waiting_for", None)
        return () if waiting_for is None else tuple(waiting_for())

    def _record(self, grant: Grant, agent: Agent) -> None:
        if self._trace is None:
            return
        if not isinstance(agent, AgentBase):
            log.warning(
                "trace: epoch %d of group %s is not on one tree: not recorded", grant.epoch, grant.group
            )
            return
        path = self._trace
        if self._recorders:
            path = path.with_name(f"{path.stem}-epoch{grant.epoch}{path.suffix}")
        self._recorders.append(FileRecorder(path))
        self._recorders[-1].put_on_agent(agent)

    def _close_recorders(self) -> None:
        for recorder in self._recorders:
            recorder.close()


def _laid_over(given: Mapping[str, Any], own: Mapping[str, Any] | None, address: str) -> dict[str, Any]:
    """The manager's configuration of the transport with this host's own entries.

    Those of another kind replace it, but for the address, which the manager gives.
    """
    if own is None:
        return dict(given)
    if own.get("kind", given["kind"]) != given["kind"]:
        return {**own, "address": address}
    return {**given, **own}
