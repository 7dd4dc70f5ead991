"""A seeded monkey over a world of the core: jobs come and go, processes, engines and the manager are killed."""

from __future__ import annotations

import random

from host.manager.core_world import Faults, SimMember, Violation, World, make_fabric, request


class Monkey:
    """Drives a world for a while, then ends every group and looks for what is left."""

    def __init__(self, seed: int, *, shape: str = "spine", hosts: int = 2, shares: int = 2) -> None:
        self.rng = random.Random(seed)
        faults = Faults(lost=0.1, twice=0.2, late=0.1) if seed % 3 else Faults()
        self.world = World(make_fabric(shape, hosts=hosts, shares=shares, pool=40), seed=seed, faults=faults)
        self.names: list[str] = []

    def run(self, steps: int) -> World:
        """So many acts, then the end. Raises Violation."""
        for _ in range(steps):
            self._act()
            self.world.run(self.rng.choice([0.01, 0.1, 0.5, 1.0]))
        self._end()
        return self.world

    def _members(self) -> list[SimMember]:
        return [m for m in self.world.members.values() if m.running and m.joined is not None]

    def _act(self) -> None:
        world, rng, members = self.world, self.rng, self._members()
        act = rng.choice(
            ["create", "create", "leave", "kill", "engine", "hang", "manager", "fault", "out", "none"]
        )
        if act == "create" and len(self.names) < 40:
            hosts = rng.choices(list(world.fabric.hosts), k=rng.randint(1, 4))
            made = world.create(
                request(*hosts, name="", path=rng.choice(["auto", "auto", "auto", "host"]), lease=1.0)
            )
            assert made is not None
            self.names.append(made[0])
            missing = rng.random() < 0.1
            for rank in range(len(hosts) - missing):
                world.spawn(made[0], rank, made[1])
        elif act == "leave" and members:
            for member in world.peers(rng.choice(members)):
                if member.running:
                    world.leave(member)
        elif act == "kill" and members:
            rng.choice(members).alive = False
        elif act == "engine":
            world.crash_engine(rng.choice(list(world.engines)), rng.choice([0.05, 1.0, 4.0]))
        elif act == "hang":
            engine = world.engines[rng.choice(list(world.engines))]
            engine.hung = True
            world.at(rng.choice([0.5, 3.0]), lambda: setattr(engine, "hung", False))
        elif act == "manager" and world.core is not None:
            world.kill_manager(rng.choice([0.0, 0.3, 2.0]))
        elif act == "fault" and members:
            world.report_fault(rng.choice(members))
        elif act == "out":
            name = rng.choice(list(world.engines))
            world.ask(lambda core: core.set_usable(engine=name, usable=rng.random() < 0.5, now=world.now))

    def _end(self) -> None:
        world = self.world
        for member in world.members.values():
            member.alive = False
        world.run(5.0)
        world.faults.lost = 0.0
        # Every lease is over, so every group is, and every engine that is there is empty.
        world.run(12.0)
        for record in world.book.groups.values():
            if record.state != "ended":
                raise Violation(f"{record.name} is {record.state} long after its members went away")
        world.check_nothing_left()
        world.run(100.0)
        left = [record.name for record in world.book.groups.values()]
        if left:
            raise Violation(f"groups remembered for ever: {left}")
        timers, engines = len(world.core._state.timers), len(world.engines)  # type: ignore[union-attr]
        if timers > 4 * engines + 2:
            raise Violation(f"{timers} timers are left")
