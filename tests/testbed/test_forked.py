"""Processes that a nursery forks: as good as started ones, and gone when they should be."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epic_spec.errors import EpicError
from epic_testbed.forked import Forked, Forks, NurseryCall
from epic_testbed.processes import Child, Children
from epic_testbed.registry import start_time

SECONDS = 30.0
# A child of these tests is `epic_testbed.child chaos FILE`, whose module is replaced by what a test writes.
ACTOR = "epic_testbed.chaosmonkey.worker"


Act = Callable[..., Forks]
Calls = tuple[NurseryCall, ...]


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Act]:
    """`act(source)` makes a nursery whose children run `source`, with `path` as their argument."""
    made: list[Forks] = []

    def make(source: str, at_import: str = "", *, tied: bool = True, calls: Calls = ()) -> Forks:
        body = textwrap.indent(textwrap.dedent(source), "    ")
        (tmp_path / "actor.py").write_text(
            f"import sys, os, time\nimport {ACTOR} as worker\n{textwrap.dedent(at_import)}\n"
            f"def main(path):\n{body}\nworker.main = main\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        made.append(Forks(["actor"], calls, tied))
        return made[-1]

    yield make
    for forks in made:
        forks.close()


def start(forks: Forks, path: str = "-", log: str = os.devnull, tied: bool = True) -> Forked:
    arguments = ["--parent", str(forks.pid)] if tied else []
    with Path(log).open("wb") as stderr:
        return forks.fork("x", [*arguments, "chaos", path], stderr.fileno())


def gone(pid: int) -> bool:
    end = time.monotonic() + SECONDS
    while start_time(pid) is not None and time.monotonic() < end:
        time.sleep(0.01)
    return start_time(pid) is None


def line_of(process: Forked) -> str:
    got = b""
    while not got.endswith(b"\n") and (more := os.read(process.stdout.fileno(), 1000)):
        got += more
    return got.decode().strip()


def test_pipes_directory_and_environment_are_those_of_the_moment(
    act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = act(
        "print(sys.stdin.readline().strip(), path, os.getcwd(), os.environ.get('EPIC_A'), flush=True)"
    )
    seen = []
    for word in ("one", "two"):
        place = tmp_path / word
        place.mkdir()
        monkeypatch.chdir(place)
        monkeypatch.setenv("EPIC_A", word)
        process = start(forks, word)
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        seen.append(line_of(process))
        assert process.wait(SECONDS) == 0
    monkeypatch.delenv("EPIC_A")
    process = start(forks, "three")
    process.stdin.close()
    seen.append(line_of(process))
    assert seen == [
        f"hello one {tmp_path / 'one'} one",
        f"hello two {tmp_path / 'two'} two",
        f"three {tmp_path / 'two'} None",
    ]


@pytest.mark.parametrize(
    ("does", "code", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('a word')", 1, "a word"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        (
            "from epic_spec.errors import ConfigError; raise ConfigError('x = 1, expected 2')",
            2,
            "x = 1, expected 2",
        ),
        ("os.kill(os.getpid(), 9)", -9, ""),
        ("os.kill(os.getpid(), 15)", -15, ""),
    ],
)
def test_it_ends_as_a_process_of_its_own(act: Act, tmp_path: Path, does: str, code: int, said: str) -> None:
    process = start(act(does), log=str(tmp_path / "log"))
    assert process.wait(SECONDS) == process.poll() == process.returncode == code
    assert ((tmp_path / "log").read_text().splitlines() or [""])[-1] == said


def test_what_it_leaves_to_do_at_its_end_is_done(act: Act) -> None:
    process = start(act("import atexit; atexit.register(lambda: print('last')); print('first')"))
    assert process.wait(SECONDS) == 0
    assert os.read(process.stdout.fileno(), 100) == b"first\nlast\n"


def test_while_it_runs_there_is_no_exit_code_and_signals_reach_it(act: Act) -> None:
    process = start(act("print('on', flush=True); time.sleep(60)"))
    assert line_of(process) == "on"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    watch = process.descriptor()
    assert select.select([watch], [], [], 0)[0] == []
    process.terminate()
    assert select.select([watch], [], [], SECONDS)[0] == [watch]
    os.close(watch)
    # Also when the nursery has not said so yet.
    assert process.poll() == process.wait(SECONDS) == -signal.SIGTERM
    # Its pid may be another process by now.
    process.kill()
    with pytest.raises(ProcessLookupError):
        process.descriptor()


def test_a_process_holds_no_pipe_of_another(act: Act) -> None:
    forks = act("sys.stdin.read(); print('over', flush=True)")
    first, second = start(forks), start(forks)
    first.stdin.close()
    assert line_of(first) == "over"
    assert first.wait(SECONDS) == 0
    assert os.read(first.stdout.fileno(), 1) == b""
    assert second.poll() is None
    second.kill()
    assert second.wait(SECONDS) == -signal.SIGKILL
    assert os.read(second.stdout.fileno(), 1) == b""


def test_it_is_loaded_once(act: Act, tmp_path: Path) -> None:
    log = tmp_path / "loaded"
    forks = act(
        "write('child')",
        f"def write(*words): open({str(log)!r}, 'a').write(' '.join(map(str, words)) + ', ')\nwrite('import')",
        calls=(("actor:write", "call", 3),),
    )
    for process in [start(forks) for _ in range(3)]:
        assert process.wait(SECONDS) == 0
    assert log.read_text() == "import, call 3, child, child, child, "


def test_ps_shows_what_it_is(act: Act) -> None:
    forks = act("print('on', flush=True); time.sleep(60)")
    process = start(forks, "/some/where")
    assert line_of(process) == "on"
    words = Path(f"/proc/{process.pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    assert words == [
        *(sys.executable, "-m", "epic_testbed.child", "--parent", str(forks.pid), "chaos", "/some/where")
    ]
    assert Path(f"/proc/{process.pid}/comm").read_text() == "epic x\n"
    assert os.getsid(process.pid) == process.pid


def test_in_a_nursery_with_threads_it_is_a_new_interpreter(act: Act, tmp_path: Path) -> None:
    """What the nursery has loaded, here the actor, is not there then: the module's own `main` misses its file."""
    forks = act(
        "print('forked', flush=True)",
        "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    )
    process = start(forks, "/no/such/file", log=str(tmp_path / "log"))
    assert process.wait(SECONDS) == 1
    assert os.read(process.stdout.fileno(), 100) == b""
    assert "/no/such/file" in (tmp_path / "log").read_text().splitlines()[-1]


@pytest.mark.parametrize("tied", [True, False])
def test_the_end_of_the_nursery_ends_its_processes(act: Act, tied: bool) -> None:
    forks = act("time.sleep(60)", tied=tied)
    processes = [start(forks, tied=tied) for _ in range(2)]
    forks.close()
    forks.close()
    assert all(gone(p.pid) for p in (*processes, forks))
    assert processes[0].wait(SECONDS) == -signal.SIGKILL


def test_a_killed_nursery_takes_its_processes_along_and_says_so(act: Act) -> None:
    forks = act("time.sleep(60)")
    process = start(forks)
    os.kill(forks.pid, signal.SIGKILL)
    assert process.wait(SECONDS) == -signal.SIGKILL
    assert gone(process.pid)
    with pytest.raises(
        EpicError, match=r"^x: the process that forks it ended with code -9, expected it to stay$"
    ):
        start(forks)


def test_what_is_left_goes_on_without_its_nursery(act: Act) -> None:
    forks = act("print('on', flush=True); time.sleep(60)", tied=False)
    process = start(forks, tied=False)
    assert line_of(process) == "on"
    forks.leave()
    assert gone(forks.pid)
    assert start_time(process.pid) is not None
    os.kill(process.pid, signal.SIGKILL)
    assert gone(process.pid)


def test_kill_9_of_the_command_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(
        textwrap.dedent(f"""
        import pathlib, time
        from epic_testbed.processes import Children
        path = pathlib.Path({str(tmp_path)!r})
        forks = Children(path).prepare()
        pids = [forks.fork(n, ["--parent", str(forks.pid), "rank", "/dev/stdin"], 2).pid for n in "ab"]
        print(forks.pid, *pids, flush=True)
        time.sleep(60)
        """)
    )
    command = subprocess.Popen([sys.executable, str(tmp_path / "command.py")], stdout=subprocess.PIPE)
    assert command.stdout is not None
    pids = [int(word) for word in command.stdout.readline().split()]
    assert len(pids) == 3
    assert all(start_time(pid) is not None for pid in pids)
    command.kill()
    command.communicate()
    assert all(gone(pid) for pid in pids)


def test_a_module_that_is_not_there_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    forks = Forks(["no.such.module"], (), True)
    with pytest.raises(
        EpicError, match=r"^x: the process that forks it ended with code 1, expected it to stay$"
    ):
        start(forks)
    forks.close()


def test_children_give_their_last_line_before_their_end(tmp_path: Path) -> None:
    children = Children(tmp_path)
    try:
        child = children.spawn("r0", "rank", tmp_path / "no.json")
        told: list[tuple[Child, str | None]] = []
        while not told:
            told += children.wait(SECONDS)
        assert told == [(child, None)]
        assert child.finished
        assert child.ending() == "exited with code 1"
        assert "no.json" in child.complaint()
    finally:
        children.close()
