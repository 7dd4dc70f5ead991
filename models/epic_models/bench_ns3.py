"""ns-3 as a peer of packetsim: the same pairs of hosts, links, windows and packets (`ns3_peer.cc`), compiled here.

The PyPI wheel `ns3` has headers and libraries; its Python bindings (cppyy) are not used, so `pip install --no-deps` is
enough, and a C++ compiler.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from epic_spec.errors import EpicError

HOW: Final = "pip install --no-deps ns3==3.44.post0, and a C++ compiler (g++)"
# ns-3's schedulers: the default, and the one that is quick where many events are of one time.
SCHEDULERS: Final = ("ns3::MapScheduler", "ns3::HeapScheduler")
_SOURCE: Final = Path(__file__).parent / "ns3_peer.cc"
_MODULES: Final = ("core", "network", "point-to-point")
_COMPILE_SECONDS: Final = 600.0
_RUN_SECONDS: Final = 600.0
# Packets of a path's links: three, with two nodes between the ends.
RATE_GBPS: Final = 100.0
DELAY_NS: Final = 500.0


class PeerError(EpicError):
    """ns-3 is here, but does not compile or run."""


def workload(pairs: int, shard: int, window: int) -> dict[str, Any]:
    """The same for packetsim: a configuration of rings of two ranks, each pair on a chain of its own."""
    hosts = [f"{side}{i}" for i in range(pairs) for side in "ab"]
    switches = [f"{side}{i}" for i in range(pairs) for side in "st"]
    links = [
        {"a": a, "b": b}
        for i in range(pairs)
        for a, b in ((f"a{i}", f"s{i}"), (f"s{i}", f"t{i}"), (f"t{i}", f"b{i}"))
    ]
    jobs = [
        {
            "name": f"pair{i}", "algorithm": "ring", "hosts": [f"a{i}", f"b{i}"], "size": 2 * shard * 1024,
            "window": window, "rto_initial_us": 10_000, "rto_min_us": 10_000,
        }
        for i in range(pairs)
    ]  # fmt: skip
    topology = {
        "kind": "listed", "hosts": hosts, "switches": switches, "links": links, "rate_gbps": RATE_GBPS,
        "delay_ns": DELAY_NS, "buffer_kib": 1e6,
    }  # fmt: skip
    return {"topology": topology, "job": jobs}


def find(folder: Path | None = None) -> Path | None:
    """The installed package's folder, `folder` itself where it is given, or None."""
    if folder is None:
        spec = importlib.util.find_spec("ns3")
        places = list(spec.submodule_search_locations or ()) if spec else []
        folder = Path(places[0]) if places else None
    return folder if folder is not None and (folder / "include" / "ns3").is_dir() else None


def run(folder: Path, pairs: int, shard: int, window: int) -> dict[str, Any]:
    """The quickest of ns-3's schedulers: hops, events, cpu_s, completion_ps. Raises PeerError."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise PeerError("g++: not found, expected a C++ compiler")
    libraries = next((p for p in (folder / "lib64", folder / "lib") if p.is_dir()), folder)
    with tempfile.TemporaryDirectory(prefix="epic-ns3-") as name:
        program = Path(name) / "peer"
        command = [
            compiler, "-O3", "-std=c++20", f"-I{folder / 'include'}", str(_SOURCE), "-o", str(program),
            *(f"-l:{_library(libraries, module)}" for module in _MODULES),
            f"-L{libraries}", f"-Wl,-rpath,{libraries}",
        ]  # fmt: skip
        _call(command, _COMPILE_SECONDS)
        best: dict[str, Any] = {}
        for scheduler in SCHEDULERS:
            words = [str(program), str(pairs), str(shard), str(window), scheduler]
            row = json.loads(_call(words, _RUN_SECONDS)) | {"scheduler": scheduler}
            if not best or row["cpu_s"] < best["cpu_s"]:
                best = row
    return best


def _library(folder: Path, module: str) -> str:
    found = sorted(folder.glob(f"libns3*-{module}.so"))
    if not found:
        raise PeerError(f"ns3: no library of module {module!r} in {folder}, expected libns3*-{module}.so")
    return found[0].name


def _call(command: list[str], seconds: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{Path(command[0]).name}: not done after {seconds:.0f} s") from None
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no word"]
        raise PeerError(f"{Path(command[0]).name}: exit code {done.returncode}: {words[0]}")
    return done.stdout
