"""`soft`: the software switch as a process of its own, and the suite's peers on real sockets.

- `binding=udp` (default): every peer has a loopback address and a socket at UDP port 4791 there; needs no
  privileges. Headers below the BTH are the kernel's, so that cases which vary them do not apply.
- `binding=ethernet`: the switch has raw ports in a network namespace that is made for it; needs root.

Options: `binding`; `ports` (how many, 2 to 65); `subnet` (udp: the loopback subnet to use, default a free one);
`datapath` (`reference` or `fast`, default fast where the mode has it; the engine is that of the mode there), or
`engine` (another engine of `epic switch serve`).

Why a short `quiet` is safe: the switch counts each frame that it takes from a socket and each that it sends, and it
answers `GetCounters` in the same loop, after the frames that waited. When its counters account for every frame
that the suite has sent, and the suite has received every frame that they say was sent, nothing more comes until a
timer expires. `receive` says that nothing comes only then.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import selectors
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from epic_host.fast.datapath import choose, engine_of
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.codec import mac_of_ip
from epic_spec.errors import ConfigError, EpicError
from epic_testbed import addressing, kernels, netns, registry
from epic_testbed.adapters.control import GrpcControl, check_mode, number, offered
from epic_testbed.adapters.live import LiveDut
from epic_testbed.adapters.ports import EthernetPorts, Ports, UdpPorts
from epic_testbed.addressing import Interface, Veth
from epic_testbed.dut import DutError, DutTraits
from epic_testbed.forked import NurseryCall
from epic_testbed.processes import Child, Children
from epic_testbed.registry import Process

MAX_PORTS: Final = 65
READY_SECONDS: Final = 30.0
CALL_SECONDS: Final = 5.0
# Silence of a switch that has handled everything; its shortest timers are some milliseconds.
QUIET: Final = 0.01
# How long counters may take to account for all frames. A switch that counts wrong gets this much silence instead.
SETTLE_SECONDS: Final = 0.25
# Frames sent before the switch must have handled them: they all fit in its socket buffer.
IN_FLIGHT: Final = 64
# Holds the largest payload that the specification knows.
MTU: Final = 9216

_SUBNETS: Final = 250

# The kernel ends a child with the thread that started it, and the suite runs each case in a thread of its own: this
# one stays as long as the process does.
_spawner: Final = ThreadPoolExecutor(1, thread_name_prefix="soft-spawn")


class SoftDut(LiveDut):
    """A software switch process. It dies with this process, and what a killed run leaves the next one removes.

    Other switches that serve the same control service are subclasses: they say what their process is.
    """

    NAME = "soft"
    PROCESS = "switch"
    IN_FLIGHT = IN_FLIGHT
    SETTLE_SECONDS = SETTLE_SECONDS
    CALL_SECONDS = CALL_SECONDS

    def __init__(
        self,
        mode: int,
        *,
        binding: str = "udp",
        ports: str | int = MAX_PORTS,
        subnet: str | None = None,
        engine: str | None = None,
        datapath: str | None = None,
    ) -> None:
        self._mode = check_mode(mode)
        if binding not in ("udp", "ethernet"):
            raise ConfigError(f"option binding = {binding!r}, expected udp or ethernet")
        if binding == "ethernet" and subnet is not None:
            raise ConfigError(f"option subnet = {subnet!r}, expected none with binding ethernet")
        self._binding = binding
        self._count = int(number(ports, "ports", 2, MAX_PORTS))
        calls: tuple[NurseryCall, ...] = ()
        if engine is None:
            path = choose(datapath, mode)
            engine = engine_of(path, mode)
            calls = (kernels.call(path, mode),)
        elif datapath is not None:
            raise ConfigError(f"option datapath = {datapath!r}, expected none with engine {engine}")
        self._engine = engine
        self._closed = False
        with contextlib.ExitStack() as stack:
            registry.clean()
            self._run = registry.create("conformance", about={"mode": mode, "transport": binding})
            stack.callback(self._run.destroy)
            self._children = Children(self._run.path, modules=("epic_host.serving",), calls=calls)
            stack.callback(self._children.close)
            own = self._open_udp(subnet) if binding == "udp" else self._open_ethernet()
            stack.callback(own.close)
            self._child = self._spawn()
            super().__init__(own, GrpcControl(f"unix:{self._run.path}/switch.sock", self.CALL_SECONDS))
            stack.callback(lambda: LiveDut.close(self))
            self._watch()
            self._rebase()
            self._traits = self._declare(self._control.capabilities())
            stack.pop_all()

    # -------------------------------------------------------------------------------------------- setting up

    def _open_udp(self, subnet: str | None) -> Ports:
        for text in [subnet] if subnet is not None else _free_subnets():
            self._hosts = _hosts(text, self._count)
            try:
                addressing.check_free({"switch": self._hosts[0]})
                return UdpPorts(self._hosts[0], dict(enumerate(self._hosts[1:])))
            except ConfigError:
                if subnet is not None:
                    raise
        raise ConfigError("udp: no free subnet in 127.231.0.0/16, expected one (or option subnet)")

    def _open_ethernet(self) -> Ports:
        if os.geteuid() != 0:
            raise ConfigError(
                f"binding ethernet: running as uid {os.geteuid()}, expected root (or binding udp)"
            )
        netns.require()
        namespace = self._run.namespace("switch")
        self._run.namespaces = [namespace]
        self._run.save()
        veths = [
            Veth(
                Interface("switch", f"c{port}", self.peer_addresses(port)[1]),
                Interface("switch", f"p{port}", self.addresses(port)[1]),
                MTU,
            )
            for port in range(self._count)
        ]
        netns.create(["switch"], veths, lambda _: namespace)
        return EthernetPorts({port: f"c{port}" for port in range(self._count)}, namespace)

    def _spawn(self) -> Child:
        """Start the switch and wait until it serves. Raises ConfigError for an unknown engine, DutError."""
        udp = self._binding == "udp"
        config = {
            "name": "switch",
            "engine": self._engine,
            "control": f"unix:{self._run.path}/switch.sock",
            "transport": {
                "kind": "udp",
                "address": self._hosts[0],
                "ports": {ip: port for port, ip in enumerate(self._hosts[1:])},
            }
            if udp
            else {"kind": "packet", "ports": {str(port): f"p{port}" for port in range(self._count)}},
        }
        path = Path(self._run.path, "switch.json")
        path.write_text(json.dumps(config))
        namespace = None if udp else self._run.namespace("switch")
        spawning = _spawner.submit(self._children.spawn, "switch", self.PROCESS, path, namespace)
        child = spawning.result(READY_SECONDS)
        self._run.processes = [Process.of("switch", child.pid)]
        self._run.save()
        deadline = time.monotonic() + READY_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            for source, line in self._children.wait(left):
                if source is child and line == "ready":
                    return child
                if source is child and line is None:
                    raise DutError(f"software switch did not start: {child.complaint()}")
        raise DutError(f"software switch did not start within {READY_SECONDS:g} s")

    def _declare(self, capabilities: EngineCapabilities) -> DutTraits:
        engine = offered(capabilities, self._mode)
        return DutTraits(
            self.NAME,
            engine,
            binding=self._binding,
            virtual_time=False,
            quiet=QUIET,
            ports=min(self._count, engine.children + 1),
            details={
                "engine": self._engine,
                "binding": self._binding,
                "device": self.addresses(0)[0] if self._binding == "udp" else "veth",
            },
        )

    # -------------------------------------------------------------------------------------------------- Dut

    def traits(self) -> DutTraits:
        """What the switch offers."""
        return self._traits

    def addresses(self, port: int) -> tuple[str, str]:
        """The switch's address on a port; over udp it has one for all."""
        if self._binding == "udp":
            return self._hosts[0], mac_of_ip(self._hosts[0])
        return f"10.77.{port}.1", f"02:00:4d:00:{port:02x}:01"

    def peer_addresses(self, port: int) -> tuple[str, str]:
        """The suite's address behind a port."""
        if self._binding == "udp":
            return self._hosts[1 + port], mac_of_ip(self._hosts[1 + port])
        return f"10.77.{port}.2", f"02:00:4d:00:{port:02x}:02"

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame; never more than the switch's socket holds."""
        if self._ports.sent - self._settled >= self.IN_FLIGHT:
            self._settle()
        super().send(port, frame)

    def reset(self) -> None:
        """Remove all groups; a switch that does not answer is replaced by a new process."""
        try:
            self._check()
            self._settle()
            self._control.reset()
            # What timers sent meanwhile may still be under way. An account taken now would be short of it, and one
            # frame that is late would then pass for silence in the next case.
            self._settle(again=True)
        except EpicError:
            self._restart()
            self._rebase()
        self._discard()

    def close(self) -> None:
        """End the switch and remove all that was made for it. More than one call is allowed."""
        if self._closed:
            return
        self._closed = True
        super().close()
        os.close(self._pidfd)
        self._children.close()
        self._run.destroy()

    # ---------------------------------------------------------------------------------------------- the process

    @property
    def pid(self) -> int:
        """The switch's process."""
        return self._child.pid

    def _watch(self) -> None:
        """Have `_collect` wake up when the process ends."""
        self._pidfd = self._child.popen.descriptor()
        self._selector.register(self._pidfd, selectors.EVENT_READ)

    def _check(self) -> None:
        if self._child.popen.poll() is not None:
            raise DutError(f"software switch (process {self._child.pid}): {self._child.ending()}")

    def _restart(self) -> None:
        self._selector.unregister(self._pidfd)
        os.close(self._pidfd)
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._child.popen.kill()
        self._child.popen.wait()
        self._child = self._spawn()
        self._control = GrpcControl(f"unix:{self._run.path}/switch.sock", self.CALL_SECONDS)
        self._watch()

    def _rebase(self) -> None:
        """Take the switch's counters as they are for a right account of the frames so far."""
        now = self._control.counters()
        self._collect_all()
        self._missing = self._account(now)
        self._settled = self._ports.sent

    def _account(self, now: Any) -> tuple[int, int]:
        """Frames that the switch has not taken yet and frames that have not come from it, on top of a constant."""
        return self._ports.sent - now.get("rx_frames", 0), now.get("tx_frames", 0) - self._ports.received

    def _settle(self, *, again: bool = False) -> None:
        """See LiveDut. `again`: also when nothing was sent since the last time."""
        self._check()
        if self._settled == self._ports.sent and not again:
            return
        deadline = None
        while True:
            now = self._control.counters()
            self._collect_all()
            if self._account(now) == self._missing:
                break
            deadline = deadline or time.monotonic() + self.SETTLE_SECONDS
            if time.monotonic() > deadline:
                self._missing = self._account(now)
                break
            self._collect(0.002)
        self._settled = self._ports.sent

    def _collect_all(self) -> None:
        before = -1
        while before != self._ports.received:
            before = self._ports.received
            self._collect(0.0)


def _hosts(subnet: str, ports: int) -> list[str]:
    """The switch's address and the peers', from .1 on. Raises ConfigError."""
    try:
        network = ipaddress.IPv4Network(subnet)
    except ValueError:
        raise ConfigError(f"option subnet = {subnet!r}, expected one such as 127.0.77.0/24") from None
    if not network.is_loopback:
        raise ConfigError(f"option subnet = {subnet!r}, expected one inside 127.0.0.0/8")
    if network.num_addresses < ports + 3:
        raise ConfigError(f"option subnet = {subnet!r}, expected room for {ports + 1} addresses")
    return [str(ip) for ip in itertools.islice(network.hosts(), ports + 1)]


def _free_subnets() -> list[str]:
    """Subnets to try: devices of one machine begin at different ones."""
    first = os.getpid() % _SUBNETS
    return [f"127.231.{(first + i) % _SUBNETS}.0/24" for i in range(_SUBNETS)]
