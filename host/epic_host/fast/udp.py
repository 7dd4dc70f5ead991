"""The socket binding in batches: the same datagrams as `UdpTransport`, many of them a system call.

Where the kernel has UDP_SEGMENT and UDP_GRO, runs of datagrams cross it as one; elsewhere one by one, still many a
call. Injected faults and a capture go frame by frame as in the reference transport, and count the same.
"""

from __future__ import annotations

import ctypes
import os
import socket
from typing import ClassVar, Final

import numpy as np

from epic_host.fast import sockets
from epic_host.fast.frames import Arrivals, Departures, EdgeTable
from epic_host.fast.syscalls import FATAL
from epic_host.transport.config import UdpConfig
from epic_host.transport.udp import UdpTransport
from epic_spec import codec
from epic_spec.addresses import ip_number, ip_text
from epic_spec.packets import Packet

# Messages of one received batch. With runs of 64 KiB they fill half of a 2 MiB second-level cache.
_SLOTS: Final = 16


class FastUdpTransport(UdpTransport):
    """A `UdpTransport` that moves whole batches too. Packets and batches may both be used, one after the other.

    `segments` and `coalesces` say whether runs are made and taken; both can be switched off for a class.
    """

    SEGMENTATION: ClassVar[bool] = True
    COALESCING: ClassVar[bool] = True

    def __init__(self, config: UdpConfig) -> None:
        super().__init__(config)
        self.segments = (
            sockets.SEGMENTS
            if self.SEGMENTATION and sockets.supports(self._socket, sockets.UDP_SEGMENT)
            else 1
        )
        self.coalesces = self.COALESCING and sockets.supports(self._socket, sockets.UDP_GRO)
        if self.coalesces:
            self._socket.setsockopt(socket.IPPROTO_UDP, sockets.UDP_GRO, 1)
        self._fd = self._socket.fileno()
        self._inbox = sockets.Inbox(_SLOTS)
        self._outbox = sockets.Outbox(1, self.segments)
        self._faulty = config.faults.rates.any or self._capture is not None
        # For packets.
        self._waiting: Arrivals | None = None
        # Whether more may wait than the last batch took.
        self.more = False
        # Where a Pump adds up processor time, when somebody wants to know.
        self.clock: dict[str, float] | None = None

    def arrivals(self) -> Arrivals:
        """Room for what one call of `receive_batch` may take."""
        arrivals = Arrivals(_SLOTS * sockets.RUN_SEGMENTS, _SLOTS * sockets.SLOT_BYTES)
        arrivals.address = ip_number(self._address)
        return arrivals

    # ------------------------------------------------------------------------------------------ in

    def receive_batch(self, arrivals: Arrivals, now: float) -> int:
        """Datagrams that have arrived, in place of what `arrivals` (of this transport) held; how many.

        Those of an unknown sender have port -1: whoever looks at them counts them as `wrong_port`. Raises OSError for a
        socket that is none any more.
        """
        world = self._inbox.address(arrivals)
        taken = sockets.receive(self._fd, world)
        arrivals.clear()
        self.more = taken == _SLOTS
        if taken <= 0:
            if -taken in FATAL:
                raise OSError(-taken, os.strerror(-taken))
            return 0
        count, unresolved = (int(n) for n in self._inbox.found)
        if unresolved:
            self.resolve(arrivals, count)
        if self._cut is not None:
            count = self._uncut(arrivals, count, now)
        self._received += count
        arrivals.count = count
        if self._capture:
            for i in range(count):
                self._record(self._capture, self._frame(arrivals, i))
        return count

    @property
    def plain(self) -> bool:
        """Whether frames come and go as the kernel has them, so that a Pump may move them: no faults, cuts, capture."""
        return not self._faulty and self._cut is None

    @property
    def inbox(self) -> sockets.Inbox:
        """What datagrams are received with."""
        return self._inbox

    @property
    def outbox(self) -> sockets.Outbox:
        """What departures are sent with."""
        return self._outbox

    def took(self, count: int) -> None:
        """A Pump has received so many datagrams."""
        self._received += count

    def resolve(self, arrivals: Arrivals, count: int) -> None:
        """Find the ports of addresses that were not heard of lately, for the `count` datagrams of a batch."""
        world = self._inbox.address(arrivals)
        while (row := sockets.resolve(world, count)) >= 0:
            source = int(arrivals.records[row]["source"])
            port = self._ports.get(ip_text(source))
            sockets.learn(world, source, -1 if port is None else port)

    def _uncut(self, arrivals: Arrivals, count: int, now: float) -> int:
        """Take out what came over links that are cut; how many are left."""
        records = arrivals.records[:count]
        blocked = self._blocked(records["source"], now)
        if blocked is None:
            return count
        left = records[~blocked]
        arrivals.records[: len(left)] = left
        return len(left)

    def _blocked(self, addresses: sockets.Records, now: float) -> sockets.Records | None:
        """Which frames, by the address at their other end, a cut keeps away; None: none of them."""
        assert self._cut is not None
        blocked = None
        for address in np.unique(addresses):
            if self._cut.blocks(ip_text(int(address)), now):
                here = addresses == address
                self._cut.dropped += int(here.sum()) - 1
                blocked = here if blocked is None else blocked | here
        return blocked

    def _frame(self, arrivals: Arrivals, index: int) -> bytes:
        """The Ethernet frame that a capture shows of an arrival."""
        record = arrivals.records[index]
        start = int(record["offset"])
        data = arrivals.arena[start : start + int(record["length"])].tobytes()
        source, sport, ecn = ip_text(int(record["source"])), int(record["sport"]), int(record["ecn"])
        return codec.frame_of_datagram(data, source, self._address, sport, ecn=ecn)

    def receive(self, now: float) -> list[tuple[int, Packet]]:
        """As `UdpTransport`, but all packets of one batch, which may be more than `BATCH`."""
        if self._waiting is None:
            self._waiting = self.arrivals()
        arrived = []
        for i in range(self.receive_batch(self._waiting, now)):
            packet = self._packet(self._frame(self._waiting, i))
            port = int(self._waiting.records[i]["port"])
            if packet is None:
                continue
            if port < 0:
                self._drop("wrong_port")
            else:
                arrived.append((port, packet))
        return arrived

    # ----------------------------------------------------------------------------------------- out

    def send_batch(self, departures: Departures, edges: EdgeTable, now: float) -> None:
        """Send all departures, those to one address in order; `departures` may be cleared then.

        What the kernel does not take is counted in `tx_failed` and lost, as on a wire. Raises OSError for a socket that
        is none any more.
        """
        count = int(departures.count[0])
        if not count:
            return
        blocked = None
        if self._cut is not None:
            blocked = self._blocked(edges.rows["peer_ip"][departures.edge[:count]], now)
        if self._faulty or blocked is not None:
            for i in range(count):
                if blocked is None or not blocked[i]:
                    self._send_one(departures, i, edges, now)
            return
        error = sockets.transmit(self._fd, self._outbox.address(departures, edges.rows))
        if error:
            raise OSError(error, os.strerror(error))

    def _send_one(self, departures: Departures, index: int, edges: EdgeTable, now: float) -> None:
        """Send a departure as the reference transport does: through the faults, into the capture."""
        body = ctypes.string_at(int(departures.body[index]), int(departures.length[index]))
        data = departures.head[index].tobytes() + body + departures.tail[index].tobytes()
        address = ip_text(int(edges.rows[departures.edge[index]]["peer_ip"]))
        self._push((address, int(departures.ecn[index])), data, now, 0)

    # -------------------------------------------------------------------------------------- counts

    def counters(self) -> dict[str, int]:
        """As every transport."""
        counts = super().counters()
        sent, failed = self._outbox.tally.tolist()
        return counts | {
            "tx_frames": counts["tx_frames"] + sent,
            "tx_failed": counts["tx_failed"] + failed,
        }
