"""A chaos run with everything around it: the cluster brought up, the jobs, the end, and what is left after it."""

from __future__ import annotations

from collections.abc import Callable

from epic_testbed.chaosmonkey import leaks
from epic_testbed.chaosmonkey.cluster import Cluster, ClusterOptions
from epic_testbed.chaosmonkey.report import Report
from epic_testbed.chaosmonkey.schedule import Schedule
from epic_testbed.chaosmonkey.supervisor import Limits, Supervisor
from epic_testbed.signals import interruptible, undisturbed


def run(schedule: Schedule, options: ClusterOptions, limits: Limits, note: Callable[[str], None]) -> Report:
    """The report of one run. Nothing is left when it returns or raises; what was is among the report's leaks."""
    with interruptible():
        cluster = Cluster(options)
        try:
            cluster.start()
            note(f"fabric is up in {cluster.layout.subnet}, schedule {schedule.digest}")
            report = Supervisor(cluster, schedule, limits, note).run()
            for node, line in cluster.logs().items():
                note(f"{node} said: {line}")
        finally:
            with undisturbed():
                cluster.close()
    pids = [child.pid for child in cluster.children.all]
    report.leaks += leaks.after_close(cluster.layout.subnet, cluster.run.path, pids)
    return report
