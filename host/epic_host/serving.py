"""A switch as a process: from its file to SIGTERM. Apart from the commands, whose libraries a switch need not load."""

from __future__ import annotations

import logging
import signal
from dataclasses import replace
from pathlib import Path

from epic_host.fast.datapath import engine_on
from epic_host.process import die_with_parent
from epic_host.switch import Switch, SwitchConfig


def serve(config: Path, datapath: str | None = None, *, detach: bool = False) -> None:
    """Run a switch until SIGTERM or SIGINT; print "ready" when it serves. Raises ConfigError, ResourceError.

    `datapath` (reference, fast) turns the file's engine into that one; without `detach` it ends with its parent.
    """
    if not detach:
        die_with_parent()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    checked = SwitchConfig.from_file(config)
    if datapath is not None:
        checked = replace(checked, engine=engine_on(datapath, checked.engine))
    switch = Switch(checked)
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: switch.stop())
        print("ready", flush=True)
        switch.run()
    finally:
        switch.close()
