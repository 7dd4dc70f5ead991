"""`epic bench switch`: how much one core aggregates in a software switch, without sockets.

Frames of the children of one root are given to the engine as a socket would give them, ICRC to be verified and in
batches as long as those of a receive, and what the engine queues is built, ICRC included, but not sent. Time is that of
the processor, of the engine's calls alone. Results of the first and the last window are held against NumPy.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from epic_host.cli_options import Json
from epic_host.fast import DATAPATHS
from epic_host.fast.datapath import MODES, choose, engine_of
from epic_spec.command import bench_group
from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from epic_host.fast.load import Load

# What `measure` gives for a window: nanoseconds, and the results that left in it.
Window = tuple[int, list[bytes]]
_DATATYPES: Final = ("int32", "fp32", "int16", "fp16", "bf16", "int8", "int64", "fp64")


def register(app: typer.Typer) -> None:
    """Add `epic bench switch` to the command."""
    bench_group(app).command("switch")(switch)


def switch(
    mode: Annotated[str, typer.Option(help="Modes, separated by commas: 2, 3.")] = "3,2",
    fan_in: Annotated[str, typer.Option(help="Children of the switch, 1 to 64.")] = "2,4,8",
    payload: Annotated[
        str, typer.Option(help="Payload of a packet in bytes.")
    ] = "256,512,1024,2048,4096,8192",
    dtype: Annotated[
        str, typer.Option(help="One of int8, int16, int32, int64, fp16, bf16, fp32, fp64.")
    ] = "int32",
    window: Annotated[int, typer.Option(help="Cells that every child has outstanding.")] = 64,
    datapath: Annotated[
        str, typer.Option(help="fast, reference, or both: how frames are worked on.")
    ] = "fast",
    seconds: Annotated[float, typer.Option(min=0.01, max=60, help="Processor time of a row.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Which payloads and PSNs.")] = 1,
    as_json: Json = False,
) -> None:
    """Contributions a second that one core verifies, adds and answers in a software switch, in memory.

    With --json one object a row. Exit code 1 when a result was wrong.
    """
    modes, children = _numbers("mode", mode, MODES), _numbers("fan-in", fan_in, range(1, 65))
    sizes = _numbers("payload", payload, range(8, 8193, 8))
    if dtype not in _DATATYPES:
        raise ConfigError(f"--dtype {dtype!r}, expected one of {', '.join(_DATATYPES)}")
    paths = DATAPATHS[::-1] if datapath == "both" else (choose(datapath, modes[0]),)
    console = Console(highlight=False)
    table = None if as_json else _Table(console, dtype, window)
    right = True
    for number in modes:
        for size in sizes:
            for count in children:
                for path in paths:
                    row = measure(number, path, count, size, dtype, window, seconds, seed)
                    right &= row.wrong == 0
                    if table is None:
                        print(json.dumps(row.to_dict()), flush=True)
                    else:
                        table.add(row)
    if table is not None:
        table.end()
    if not right:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; `ns` are processor nanoseconds a contribution, of each window, in order of size."""

    mode: int
    datapath: str
    fan_in: int
    payload_bytes: int
    datatype: str
    window: int
    ns: tuple[float, ...]
    wrong: int

    def rates(self) -> dict[str, float]:
        """Contributions a second: of the slowest, the median and the fastest window."""
        return {"min": 1e9 / self.ns[-1], "median": 1e9 / median(self.ns), "max": 1e9 / self.ns[0]}

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        rates = self.rates()
        return {
            "mode": self.mode,
            "datapath": self.datapath,
            "fan_in": self.fan_in,
            "payload_bytes": self.payload_bytes,
            "type": self.datatype,
            "window": self.window,
            "windows": len(self.ns),
            "contributions_per_second": {name: round(rate) for name, rate in rates.items()},
            "gbytes_per_second": {
                name: round(rate * self.payload_bytes / 1e9, 6) for name, rate in rates.items()
            },
            "wrong": self.wrong,
        }


def measure(
    mode: int, datapath: str, fan_in: int, payload: int, dtype: str, window: int, seconds: float, seed: int
) -> Row:
    """Run windows until they have taken `seconds` of the processor, and three at least.

    `wrong` counts results that are not what NumPy adds up to, in the first and the last window, and frames dropped.
    Raises ConfigError and ResourceError for what the engine does not offer.
    """
    from epic_host.engines import make_engine
    from epic_host.fast.load import Load
    from epic_models.reference.group import GroupParams

    params = GroupParams(
        group=1, mode=mode, world_size=fan_in, window=window, slots=2 * window, payload_bytes=payload,
        datatypes=(dtype.upper(),),
    )  # fmt: skip
    load = Load(params, fan_in, seed)
    engine = make_engine(engine_of(datapath, mode))
    engine.install(load.group, 0.0)
    run = _fast(engine, load) if datapath == "fast" else _reference(engine, load)
    # The first window loads and compiles; what came of it is checked all the same.
    _, first = run(0)
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds * 1e9:
        spent, last = run(1 + len(times))
        times.append(spent)
    wanted = [payload for payload in load.results() for _ in range(fan_in)]
    wrong = sum(_differences(got, wanted) for got in (first, last))
    counters = engine.counters()
    wrong += sum(count for name, count in counters.items() if name.startswith("drop_"))
    wrong += abs(counters["cells_completed"] - window * (1 + len(times)))
    return Row(
        mode, datapath, fan_in, payload, dtype, window,
        tuple(sorted(spent / load.contributions for spent in times)), wrong,
    )  # fmt: skip


def _differences(got: Sequence[bytes], wanted: Sequence[bytes]) -> int:
    return abs(len(got) - len(wanted)) + sum(a != b for a, b in zip(got, wanted, strict=False))


def _fast(engine: Any, load: Load) -> Callable[[int], Window]:
    """A function that runs a window through an engine that takes batches."""
    from epic_host.fast.frames import departures
    from epic_host.fast.wire import ACK

    queue = departures(engine.burst + 2048)

    def bodies() -> Iterator[bytes]:
        for i in range(int(queue.count[0])):
            if queue.head[i, 0] != ACK:
                yield ctypes.string_at(int(queue.body[i]), int(queue.length[i]))

    def run(number: int) -> Window:
        spent = 0
        results: list[bytes] = []
        for arrivals in load.window(number):
            done = 0
            while done < arrivals.count:
                begin = time.thread_time_ns()
                done = engine.receive_batch(arrivals, done, queue, number * 1e-3)
                spent += time.thread_time_ns() - begin
                results += bodies()
                queue.clear()
        return spent, results

    return run


def _reference(engine: Any, load: Load) -> Callable[[int], Window]:
    """The same for an engine that takes packets: decoded and encoded here, as a transport does."""
    from epic_spec import codec
    from epic_spec.tables import Opcode

    def run(number: int) -> Window:
        spent = 0
        results: list[bytes] = []
        for arrivals in load.window(number):
            begin = time.thread_time_ns()
            for record in arrivals.records[: arrivals.count]:
                start = int(record["offset"])
                data = arrivals.arena[start : start + int(record["length"])].tobytes()
                edge = load.edges[int(record["port"])]
                packet = codec.decode_datagram(data, edge.peer.ip, edge.local.ip, icrc="check")
                for _, sent in engine.receive(edge.port, packet, number * 1e-3).sends:
                    codec.encode_datagram(sent, icrc=sent.icrc_ok)
                    if sent.opcode is not Opcode.ACK:
                        results.append(sent.payload)
            spent += time.thread_time_ns() - begin
        return spent, results

    return run


def _numbers(name: str, text: str, allowed: Sequence[int]) -> list[int]:
    """Numbers separated by commas. Raises ConfigError for one that is not allowed."""
    found = []
    for word in text.split(","):
        if not word.isdecimal() or int(word) not in allowed:
            step = f" in steps of {allowed[1] - allowed[0]}" if allowed[1] - allowed[0] > 1 else ""
            raise ConfigError(
                f"--{name} {text!r}, expected numbers from {min(allowed)} to {max(allowed)}{step}, separated by commas"
            )
        found.append(int(word))
    return found


class _Table:
    """Rows as they come."""

    def __init__(self, console: Console, dtype: str, window: int) -> None:
        console.print(
            f"{dtype} SUM at a root, window {window}, ICRC verified and built, no sockets; one core"
        )
        self._console = console
        self._table = Table(
            "mode", "data path", "payload B", "fan-in", "contr./s", "GB/s", "ns each", "wrong"
        )

    def add(self, row: Row) -> None:
        """One more."""
        rate = row.rates()["median"]
        self._table.add_row(
            str(row.mode), row.datapath, str(row.payload_bytes), str(row.fan_in), f"{rate / 1e6:.3f} M",
            f"{rate * row.payload_bytes / 1e9:.3f}", f"{1e9 / rate:.0f}", str(row.wrong),
        )  # fmt: skip

    def end(self) -> None:
        """Print it."""
        self._console.print(self._table)
        self._console.print("medians over windows, in seconds of the processor")
