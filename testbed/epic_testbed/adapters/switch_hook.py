"""A hook for the software switch: an example of the hook protocol of testbed/CONFORMANCE.md, for vendors to start from.

    python -m epic_testbed.adapters.switch_hook unix:/run/switch.sock VERB < question.json > answer.json

It turns each verb into a call of the switch's `epic.v1.Engine` service.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from epic_host.control import EngineClient
from epic_models.reference.group import EngineGroup
from epic_spec.errors import ConfigError, EpicError, ResourceError

# Exit codes of the protocol.
REFUSED_INVALID, REFUSED_NO_ROOM, FAILED = 2, 3, 1


def answer(client: EngineClient, verb: str, question: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question. Raises what the switch raises."""
    if verb == "capabilities":
        offered = asdict(client.capabilities())
        if offered.pop("mode") != question["mode"]:
            raise ConfigError(f"mode = {question['mode']}, this switch realizes another")
        return {"name": "software switch", "capabilities": offered}
    if verb == "install":
        client.install(EngineGroup.from_dict(question))
        return {}
    if verb == "remove":
        client.remove(question["group"])
        return {}
    if verb == "counters":
        return dict(client.counters())
    if verb == "status":
        return asdict(client.status(question["group"]))
    if verb == "reset":
        for group in client.health()[2]:
            client.remove(group)
        return {}
    raise ConfigError(f"verb {verb!r}, expected capabilities, install, remove, counters, status or reset")


def main(address: str, verb: str) -> int:
    """One call of the hook; the exit code."""
    with EngineClient(address) as client:
        try:
            print(json.dumps(answer(client, verb, json.load(sys.stdin))))
        except EpicError as error:
            print(error, file=sys.stderr)
            if isinstance(error, ConfigError):
                return REFUSED_INVALID
            return REFUSED_NO_ROOM if isinstance(error, ResourceError) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
