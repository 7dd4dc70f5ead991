"""Entry point of every process that a run starts: `python -m epic_testbed.child [OPTIONS] WHAT FILE`.

`switch FILE` serves a software switch, `bmv2 FILE` a BMv2, `manager FILE` a manager, `rank FILE` is one rank's
worker, `chaos FILE` hosts ranks of the chaos test, `bench FILE` is one rank of a contender of `epic bench`, `mpi FILE`
all ranks of the contender that MPI starts. Before anything heavy is imported the process ties its life to its
parent's (`--parent PID`: it gets SIGKILL when that dies) and moves into a network namespace (`--netns NAME`), so that
threads which libraries start are in it too.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from epic_testbed.tied import die_with


def main(argv: list[str]) -> None:
    """Run one process of a testbed. The arguments come from `processes.spawn`."""
    arguments = list(argv)
    namespace, bound = None, False
    while arguments[0].startswith("--"):
        option, value = arguments.pop(0), arguments.pop(0)
        if option == "--parent":
            die_with(int(value))
            bound = True
        elif option == "--netns":
            namespace = value
        else:
            raise SystemExit(f"unknown option {option}, expected --parent or --netns")
    what, path = arguments
    # A Ctrl-C in the terminal goes to the whole foreground group; stopping children is the supervisor's job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if namespace is not None:
        from epic_testbed import netns

        netns.enter(namespace)
    from epic_spec.errors import EpicError

    try:
        if what == "switch":
            from epic_host.serving import serve

            serve(Path(path), detach=not bound)
        elif what == "bmv2":
            from epic_testbed import bmv2

            bmv2.serve(Path(path))
        elif what == "manager":
            from epic_host.manager.config import ManagerConfig
            from epic_host.manager.server import run

            run(ManagerConfig.from_file(Path(path)), lambda: print("ready", flush=True))
        elif what == "rank":
            from epic_testbed import worker

            worker.main(path)
        elif what == "chaos":
            from epic_testbed.chaosmonkey import worker as chaos_worker

            chaos_worker.main(path)
        elif what == "bench":
            from epic_testbed.bench import worker as bench_worker

            bench_worker.main(path)
        elif what == "mpi":
            from epic_testbed.bench import mpi

            mpi.launch(path)
        else:
            known = "switch, bmv2, manager, rank, chaos, bench or mpi"
            raise SystemExit(f"unknown child {what!r}, expected {known}")
    except EpicError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
