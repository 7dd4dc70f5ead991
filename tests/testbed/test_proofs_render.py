"""Counterexamples as message sequences: from states to steps, and to text and SVG."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from epic_spec.loader import REPO
from epic_testbed.proofs import explain, render_svg, render_text
from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.explain import Counterexample, Event, Message, MessageSequence
from epic_testbed.proofs.output import Outcome
from epic_testbed.proofs.scratch import scratch
from epic_testbed.proofs.tlc import Job, Pool
from testbed.proofs_helpers import needs_java

SVG = "{http://www.w3.org/2000/svg}"
FIRST = Message("r0", "a", "contribution", 0, "r0.0")
SECOND = Message("a", "r0", "result", 0, "r0.0 & more")
LOST = Message("a", "r1", "result", 0, "r0.0")
SEQUENCE = MessageSequence(
    "EXAMPLE: two ranks <and> an engine",
    ["r0", "a", "r1"],
    [
        Event(2, "r0", "contributes", None, [FIRST], []),
        Event(3, "a", "receives", FIRST, [SECOND, LOST], [("a", "slot[0] = cell 0, from r0: r0.0")]),
        Event(4, "r0", "receives", SECOND, [], [("r0", "delivers 0: r0.0")]),
        Event(5, "r0", "receives", SECOND, [], []),
    ],
    "Exactness is violated.",
)


def test_text_has_a_column_a_node_and_a_line_a_step() -> None:
    lines = render_text.render(SEQUENCE).splitlines()
    assert lines[0] == "EXAMPLE: two ranks <and> an engine"
    assert lines[2].split() == ["r0", "a", "r1"]
    assert lines[3].split() == ["*", "|", "|", "2", "r0", "contributes"]
    assert lines[4].split() == [
        "ocontribution",
        "0-->|",
        "|",
        "3",
        "a",
        "receives",
        "contribution",
        "0",
        "from",
        "r0:",
        "r0.0",
    ]
    assert lines[5].endswith("slot[0] = cell 0, from r0: r0.0")
    assert lines[6].endswith("result 0 to r1: not received")
    assert "<-- result 0 ----o" in lines[7]
    assert "again" not in lines[7]
    assert lines[9].endswith("r0 receives result 0 from a again: r0.0 & more")
    assert lines[-1] == "Exactness is violated."


def test_columns_line_up() -> None:
    lines = render_text.render(SEQUENCE).splitlines()
    column = lines[3].index("*")
    assert lines[4][column] == "o"
    assert lines[7][column] == "|"


def test_svg_is_well_formed_and_shows_everything() -> None:
    root = ElementTree.fromstring(render_svg.render(SEQUENCE))
    texts = ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]
    for text in (
        "EXAMPLE: two ranks <and> an engine",
        "r0",
        "a",
        "r1",
        "contribution 0",
        "result 0",
        "result 0 again",
    ):
        assert text in texts
    assert "result 0 to r1" in texts
    assert "×" in texts
    assert "r0 receives result 0 from a: r0.0 & more" in texts
    assert "Exactness is violated." in texts
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    for element in root.iter():
        for key, limit in (("x1", width), ("x2", width), ("y1", height), ("y2", height)):
            assert 0 <= float(element.attrib.get(key, 0)) <= limit


def test_an_arrow_goes_from_the_step_of_sending_to_that_of_receiving() -> None:
    root = ElementTree.fromstring(render_svg.render(SEQUENCE))
    arrows = [x.attrib for x in root.iter(f"{SVG}line") if x.attrib.get("stroke-width") == "1.6"]
    assert len(arrows) == 3
    assert all(float(a["y1"]) < float(a["y2"]) for a in arrows)
    first, result, again = arrows
    assert float(first["x1"]) < float(first["x2"])
    assert float(result["x1"]) > float(result["x2"])
    assert result["y1"] == again["y1"] == first["y2"]
    assert "stroke-dasharray" in again
    assert "stroke-dasharray" not in result


def test_an_engine_stands_between_its_children() -> None:
    parent = {"r0": "a", "r1": "a", "a": "x", "r2": "x"}
    assert explain.columns(parent) == ["r0", "a", "r1", "x", "r2"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1, 1, []),
        (1, 2, ["x = 2"]),
        (frozenset([1]), frozenset([2]), ["x loses 1", "x gets 2"]),
        ((1,), (1, 2), ["x gets 2 at its end"]),
        ((1, 2), (1,), ["x = <<1>>"]),
    ],
)
def test_a_change_is_said_in_short(before: explain.Value, after: explain.Value, said: list[str]) -> None:
    assert explain.changes("x", before, after) == said


def test_only_the_argument_that_changed_is_named() -> None:
    before = explain.Fun({"a": explain.Fun({0: 1, 1: 1}), "b": explain.Fun({0: 1, 1: 1})})
    after = explain.Fun({"a": explain.Fun({0: 1, 1: 7}), "b": explain.Fun({0: 1, 1: 1})})
    assert explain.changes("x", before, after) == ["x[a][1] = 7"]


def counterexample(folder: Path, mode: int, guard: str, **constants: str) -> Counterexample:
    """What TLC finds in a small instance of a mode without one of its guards."""
    config = TlcConfig.load(REPO / "tla" / f"MUT{mode}_{guard}.cfg")
    for name, value in constants.items():
        config = config.with_value(name, value)
    path = folder / "mutant.cfg"
    path.write_text(config.text)
    module = REPO / "tla" / f"MC{mode}.tla"
    with scratch("test") as files:
        pool = Pool(files, 1)
        (done,) = pool.run_all([Job("mutant", module.parent, module.stem, path, 200.0)])
        pool.close()
    assert done.outcome.states, done.outcome
    return Counterexample("mutant", "without a guard", module, config, done.outcome, done.outcome.result)


def explained(found: Counterexample) -> MessageSequence:
    with scratch("test") as files:
        pool = Pool(files, 1)
        try:
            (sequence,) = explain.explain([found], pool, files.folder)
        finally:
            pool.close()
    return sequence


@needs_java
@pytest.mark.parametrize(("mode", "guard"), [(1, "complete"), (2, "complete"), (3, "dedup")])
def test_the_steps_of_a_counterexample_are_explained(tmp_path: Path, mode: int, guard: str) -> None:
    found = counterexample(tmp_path, mode, guard)
    sequence = explained(found)
    assert len(sequence.events) == len(found.outcome.states) - 1
    assert {"r0", "r1"} <= set(sequence.nodes)
    for event in sequence.events:
        assert event.node in sequence.nodes
        assert event.act in ("contributes", "receives", "repeats", "publishes")
        # What is received was sent before, by the node that the message names.
        if event.received is not None:
            assert any(event.received in e.sent for e in sequence.events if e.number < event.number)
            assert event.received.receiver == event.node
        assert all(m.sender == event.node for m in event.sent)
    ElementTree.fromstring(render_svg.render(sequence))


@needs_java
def test_a_specification_without_a_show_module_gets_its_plain_steps(tmp_path: Path) -> None:
    found = counterexample(tmp_path, 2, "keep_agg")
    module = tmp_path / "Other.tla"
    module.write_text("---- MODULE Other ----\n====\n")
    sequence = explained(Counterexample("x", "y", module, found.config, found.outcome, found.result))
    assert sequence.nodes == []
    assert any(note.startswith("data[up][r0] gets [") for e in sequence.events for _, note in e.notes)
    text = render_text.render(sequence)
    assert "Contribute" in text
    ElementTree.fromstring(render_svg.render(sequence))


def test_no_states_are_no_sequence() -> None:
    assert explain.show_module(REPO / "tla" / "MC3.tla") == REPO / "tla" / "ShowMode3.tla"
    assert Outcome().states == []
