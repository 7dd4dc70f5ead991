"""`soft-agent`: a `Communicator` of the host runtime over a UDP socket of its own, in real time.

The suite is the engine at `subnet`.1 and the host is at `subnet`.2, each at UDP port 4791. The communicator has its own
thread in this process; it ends with `reset`, and with the process at the latest.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any, TypeVar

from epic_host import Communicator
from epic_host.control import ControlServer
from epic_host.fast.datapath import choose
from epic_host.handle import Handle
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup, GroupPlan
from epic_models.reference.interfaces import GroupStatus
from epic_spec import codec
from epic_spec.errors import ConfigError, EpicError
from epic_spec.tables import UDP_PORT
from epic_testbed import kernels
from epic_testbed.dut import AgentDut, DutError, DutTraits

T = TypeVar("T")
# Seconds after which nothing more is expected of a host without timers that are due.
QUIET = 0.05
# Of the control service, TCP on the suite's address: a killed run leaves no file behind.
CONTROL_PORT = 4792
_HEADERS = 42  # Ethernet, IPv4 and UDP: the socket's
_TOS_AT = 15


@dataclass(slots=True)
class _Failed:
    """A call that was refused at once."""

    error: EpicError


class _Asked:
    """The control service of the engine that the suite plays: it answers with what the suite says."""

    name = "sw"
    engine_name = "conformance suite"

    def __init__(self, group: int, ask: Callable[[int], GroupStatus | None], mode: int) -> None:
        self._group = group
        self._ask = ask
        self._mode = mode

    def capabilities(self) -> EngineCapabilities:
        """Whatever the group needs."""
        return EngineCapabilities(self._mode)

    def groups(self) -> tuple[int, ...]:
        """The one that the host has joined."""
        return (self._group,)

    def install(self, entry: EngineGroup) -> None:
        """Refused: the suite installs."""
        raise ConfigError(f"group {entry.params.group}: installed by the suite alone")

    def remove(self, group: int) -> None:
        """Refused: the suite removes."""
        raise ConfigError(f"group {group}: removed by the suite alone")

    def status(self, group: int) -> GroupStatus:
        """What the case says, or no answer."""
        answer = self._ask(group)
        if answer is None:
            raise TimeoutError("the suite does not answer")
        return answer

    def counters(self) -> dict[str, int]:
        """None are kept."""
        return {}

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """In the caller's thread: nothing here is shared."""
        return work()


class SoftAgentDut(AgentDut):
    """The host runtime as a device. `subnet`: three bytes of a loopback network that nobody else uses.

    `datapath` is the communicator's (default: fast in the modes that have it).
    """

    def __init__(
        self,
        mode: int,
        *,
        subnet: str = "127.77.78",
        name: str = "soft-agent",
        datapath: str | None = None,
    ) -> None:
        if mode not in (1, 2, 3):
            raise ConfigError(f"mode = {mode!r}, expected 1, 2 or 3")
        self._datapath = choose(datapath, mode)
        kernels.prepare(self._datapath, mode)
        try:
            self._switch, self._host = (str(IPv4Address(f"{subnet}.{i}")) for i in (1, 2))
        except ValueError:
            raise ConfigError(f"subnet = {subnet!r}, expected three bytes such as 127.77.78") from None
        self._mode = mode
        self._ask: Callable[[int], GroupStatus | None] = lambda _group: None
        self._comm: Communicator | None = None
        self._control: ControlServer | None = None
        self._handles: list[Handle | _Failed] = []
        self._socket = _bound(self._switch)
        capabilities = EngineCapabilities(mode, ack_reflection=mode == 3, window_guard=mode == 3)
        self._traits = DutTraits(
            name,
            capabilities,
            binding="udp",
            virtual_time=False,
            quiet=QUIET,
            ports=1,
            reads_status=False,
            asks_engines=True,
            details={"datapath": self._datapath},
        )

    def traits(self) -> DutTraits:
        """A host of any parameters."""
        return self._traits

    def addresses(self) -> tuple[str, str]:
        """The host's loopback address."""
        return self._host, codec.mac_of_ip(self._host)

    def peer_addresses(self) -> tuple[str, str]:
        """The suite's loopback address."""
        return self._switch, codec.mac_of_ip(self._switch)

    def join(self, rank: int, plan: GroupPlan) -> None:
        """A new communicator, which finds the suite's control service at the root of its tree."""
        self._leave()
        control = f"{self._switch}:{CONTROL_PORT}"
        asked = _Asked(plan.params.group, lambda group: self._ask(group), self._mode)
        self._control = ControlServer(control, asked)
        transport = {"kind": "udp", "address": self._host, "ports": {self._switch: 0}}
        plan = replace(plan, control={plan.root: control})
        self._comm = Communicator(rank, plan, transport, datapath=self._datapath)

    def call(self, primitive: str, **arguments: Any) -> int:
        """Start a collective of the communicator."""
        try:
            self._handles.append(getattr(self._joined, primitive)(**arguments, async_op=True))
        except EpicError as error:
            self._handles.append(_Failed(error))
        return len(self._handles) - 1

    def outcome(self, handle: int) -> Any:
        """How a collective ended."""
        started = self._handles[handle]
        if isinstance(started, _Failed):
            return "error", started.error
        if not started.done():
            return None
        try:
            return "ok", started.result(0.0)
        except EpicError as error:
            return "error", error

    def abort(self) -> None:
        """End the communicator's collectives."""
        self._joined.abort()

    def answer(self, ask: Callable[[int], GroupStatus | None]) -> None:
        """What the control service says."""
        self._ask = ask

    def send(self, frame: bytes) -> None:
        """The part of a frame from its BTH on; TOS is the frame's, the other headers are the socket's."""
        tos = struct.pack("i", frame[_TOS_AT]) if len(frame) > _TOS_AT else struct.pack("i", 0)
        mark = (socket.IPPROTO_IP, socket.IP_TOS, tos)
        try:
            self._socket.sendmsg([frame[_HEADERS:]], [mark], 0, (self._host, UDP_PORT))
        except OSError as error:
            raise DutError(f"{self._host}:{UDP_PORT}: {error.strerror}") from None

    def receive(self, timeout: float) -> bytes | None:
        """The next datagram of the host as a frame."""
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                return None
            data, ancillary, _, (address, sport) = self._socket.recvmsg(65536, socket.CMSG_SPACE(4))
            if address == self._host:
                ecn = ancillary[0][2][0] & 3 if ancillary else 0
                return codec.frame_of_datagram(data, address, self._switch, sport, ecn=ecn)

    def advance(self, seconds: float) -> None:
        """Sleep; the socket keeps what comes."""
        time.sleep(seconds)

    def counters(self) -> Mapping[str, int]:
        """The communicator's counters."""
        return self._joined.counters()

    def reset(self) -> None:
        """Close the communicator and forget what it sent."""
        self._leave()
        while self.receive(0.0) is not None:
            pass

    def close(self) -> None:
        """Close everything."""
        self._leave()
        self._socket.close()

    @property
    def _joined(self) -> Communicator:
        if self._comm is None:
            raise DutError("the host has not joined a group")
        return self._comm

    def _leave(self) -> None:
        comm, self._comm = self._comm, None
        control, self._control = self._control, None
        self._handles.clear()
        self._ask = lambda _group: None
        if comm is not None:
            comm.close()
        if control is not None:
            control.close()


def _bound(address: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        sock.bind((address, UDP_PORT))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"soft-agent: address {address}:{UDP_PORT}: {error.strerror}, expected a free one of this machine"
        ) from None
    return sock
