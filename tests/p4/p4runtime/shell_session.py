"""What the real client does in its own environment: `python shell_session.py NAME ADDRESS ARGUMENTS…`.

Each session is a function; what it returns is printed as JSON on the last line. Only p4runtime-shell is imported here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException


def connect(address, config=None):
    """Become primary, load a pipeline when one is given, and take the P4Info from the switch."""
    pipeline = None if config is None else sh.FwdPipeConfig(*config)
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 1), config=pipeline, verbose=False)


def refused(action):
    """The canonical codes of the updates that an action was refused for."""
    try:
        action()
    except P4RuntimeWriteException as error:
        return [one.canonical_code for _, one in error.errors]
    return []


def host(mac, port):
    """An entry of small.p4's table of hosts."""
    entry = sh.TableEntry("SmallIngress.hosts")(action="SmallIngress.forward")
    entry.match["dst"] = mac
    entry.action["port"] = str(port)
    return entry


def small(address, info, document):
    """Loads small.p4, then writes and reads everything that it has."""
    connect(address, (info, document))
    found = {"version": sh.client.api_version()}
    host("02:00:00:00:00:02", 3).insert()
    found["twice"] = refused(host("02:00:00:00:00:02", 4).insert)
    host("02:00:00:00:00:02", 5).modify()
    host("02:00:00:00:00:03", 6).insert()
    host("02:00:00:00:00:03", 6).delete()
    found["absent"] = refused(host("02:00:00:00:00:03", 6).delete)

    route = sh.TableEntry("SmallIngress.routes")(action="SmallIngress.route")
    route.match["dst"] = "10.1.0.0/16"
    route.action["next"] = "02:00:00:00:00:09"
    route.action["port"] = "7"
    route.insert()

    label = sh.TableEntry("SmallIngress.classes")(action="SmallIngress.classify")
    label.match["src"] = "0x1&&&0xf"
    label.match["type"] = "0x1234"
    label.match["port"] = "1..4"
    label.action["value"] = "42"
    label.priority = 10
    label.insert()

    default = sh.TableEntry("SmallIngress.routes")(action="SmallIngress.route", is_default=True)
    default.action["next"] = "1"
    default.action["port"] = "1"
    default.modify()

    group = sh.MulticastGroupEntry(7).add(1, 10).add(2, 20)
    group.insert()
    found["group"] = [
        [r.egress_port, r.instance] for r in next(iter(sh.MulticastGroupEntry(7).read())).replicas
    ]

    found["hosts"] = [
        str(e.match["dst"].exact.value.hex()) for e in sh.TableEntry("SmallIngress.hosts").read()
    ]
    found["routes"] = [e.match["dst"].lpm.prefix_len for e in sh.TableEntry("SmallIngress.routes").read()]
    found["classes"] = [e.priority for e in sh.TableEntry("SmallIngress.classes").read()]
    found["constant"] = len(list(sh.TableEntry("SmallIngress.fixed_types").read()))
    sh.teardown()
    return found


def counts(address):
    """Reads small.p4's counters, then clears one."""
    connect(address)
    found = {"arrivals": {}}
    for cell in sh.CounterEntry("SmallIngress.arrivals").read():
        if cell.packet_count:
            found["arrivals"][cell.index] = [cell.packet_count, cell.byte_count]
    found["direct"] = [e.packet_count for e in sh.DirectCounterEntry("SmallIngress.host_hits").read()]
    clear = sh.CounterEntry("SmallIngress.arrivals")
    clear.index = 4
    clear.packet_count = 0
    clear.byte_count = 0
    clear.modify()
    found["cleared"] = [
        c.packet_count for c in sh.CounterEntry("SmallIngress.arrivals").read() if c.index == 4
    ]
    sh.teardown()
    return found


def install(address, info, document, plan):
    """Loads epic.p4 and installs a group that is given as a list of stages of entries and multicast groups."""
    connect(address, (info, document))
    stages = json.loads(Path(plan).read_text())
    for stage in stages:
        for item in stage:
            if "replicas" in item:
                group = sh.MulticastGroupEntry(item["number"])
                for port, rid in item["replicas"]:
                    group.add(port, rid)
                group.insert()
                continue
            entry = sh.TableEntry(item["table"])(action=item["action"])
            for key, value in item["match"].items():
                entry.match[key] = str(value)
            for param, value in item["params"].items():
                entry.action[param] = str(value)
            entry.insert()
    found = {
        "entries": {t.name: len(list(sh.TableEntry(t.name).read())) for t in sh.P4Objects(sh.P4Type.table)}
    }
    found["groups"] = [
        [r.egress_port, r.instance] for g in sh.MulticastGroupEntry().read() for r in g.replicas
    ]
    sh.teardown()
    return found


def banks(address):
    """Reads all counters of a program: bank, index, packets, where there are some."""
    connect(address)
    found = []
    for bank in sh.P4Objects(sh.P4Type.counter):
        cells = [cell for cell in sh.CounterEntry(bank.name).read() if cell.packet_count]
        found += [[bank.name, cell.index, cell.packet_count] for cell in cells]
    sh.teardown()
    return found


SESSIONS = {"small": small, "counts": counts, "install": install, "banks": banks}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    try:
        print(json.dumps(SESSIONS[name](*arguments)))
    finally:
        # After an error the client's thread still waits on its stream, and Python would wait for the thread.
        if sh.client is not None:
            sh.teardown()
