"""Tables against a naive model, and the errors of the control plane."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.runtime.errors import (
    AlreadyExistsError,
    ControlError,
    NotFoundError,
    ReadOnlyError,
    TableFullError,
)
from epic_p4.runtime.match import Exact, Lpm, MatchValue, Range, Ternary
from epic_p4.runtime.tables import ActionSpec, KeySpec, Table

WIDTH = 4
TOP = (1 << WIDTH) - 1
ACTIONS = (ActionSpec("c.miss", ()), ActionSpec("c.hit", (("n", 16),)))


def table(*kinds: str, size: int | None = None) -> Table:
    keys = [KeySpec(f"k{number}", WIDTH, kind) for number, kind in enumerate(kinds)]
    return Table("c.t", keys, ACTIONS, size=size, default=(0, ()))


def find(one: Table, *key: int) -> int | None:
    """The data of the entry found, as generated code finds it."""
    what = key[0] if len(key) == 1 else key
    entry = one.cache.get(what) or one.lookup(what)
    return entry.args[0] if entry.hit else None


# -- the naive model


@dataclass
class Row:
    match: dict[str, MatchValue]
    priority: int
    data: int


def agrees(value: MatchValue | None, key: int) -> bool:
    match value:
        case None:
            return True
        case Exact(number):
            return key == number
        case Lpm(number, prefix):
            return key >> (WIDTH - prefix) == number >> (WIDTH - prefix)
        case Ternary(number, mask):
            return all((key >> bit & 1) == (number >> bit & 1) for bit in range(WIDTH) if mask >> bit & 1)
        case Range(low, high):
            return low <= key <= high


def naive(rows: list[Row], key: tuple[int, ...]) -> int | None:
    fitting = [row for row in rows if all(agrees(row.match.get(f"k{n}"), part) for n, part in enumerate(key))]
    if not fitting:
        return None

    def weight(row: Row) -> tuple[int, int]:
        prefixes = sum(value.prefix for value in row.match.values() if isinstance(value, Lpm))
        return (row.priority, prefixes if row.priority == 0 else 0)

    # `max` gives the first of equals: the oldest.
    return max(fitting, key=weight).data


def match_values(kind: str) -> st.SearchStrategy[MatchValue | None]:
    numbers = st.integers(0, TOP)
    if kind == "exact":
        return st.builds(Exact, numbers)
    if kind == "lpm":
        prefixes = st.integers(1, WIDTH)
        made = st.tuples(numbers, prefixes).map(lambda two: Lpm(two[0] & (TOP ^ (TOP >> two[1])), two[1]))
        return st.one_of(st.none(), made)
    if kind == "range":
        pairs = st.tuples(numbers, numbers).map(lambda two: Range(min(two), max(two)))
        return st.one_of(st.none(), pairs.filter(lambda one: one != Range(0, TOP)))
    ternary = st.tuples(numbers, numbers).map(lambda two: Ternary(two[0] & two[1], two[1]))
    return st.one_of(st.none(), ternary.filter(lambda one: one.mask != 0))


KINDS = st.sampled_from(
    [
        ("exact",),
        ("lpm",),
        ("ternary",),
        ("range",),
        ("exact", "exact"),
        ("exact", "lpm"),
        ("ternary", "range"),
        ("lpm", "ternary"),
        ("exact", "ternary", "range"),
    ]
)


@given(st.data())
def test_a_lookup_finds_what_the_naive_model_finds(data: st.DataObject) -> None:
    kinds = data.draw(KINDS)
    one, rows = table(*kinds), []
    prioritized = any(kind in ("ternary", "range") for kind in kinds)
    for number in range(data.draw(st.integers(0, 12))):
        drawn = {f"k{n}": data.draw(match_values(kind)) for n, kind in enumerate(kinds)}
        match = {name: value for name, value in drawn.items() if value is not None}
        priority = data.draw(st.integers(1, 4)) if prioritized else 0
        same = [row for row in rows if row.match == match and row.priority == priority]
        if same and data.draw(st.booleans()):
            one.delete(match, priority)
            rows.remove(same[0])
        elif same:
            with pytest.raises(AlreadyExistsError):
                one.insert(match, "hit", {"n": number}, priority)
        else:
            one.insert(match, "hit", {"n": number}, priority)
            rows.append(Row(match, priority, number))
        # Lookups between the changes: what is remembered must not survive a change.
        key = tuple(data.draw(st.integers(0, TOP)) for _ in kinds)
        assert find(one, *key) == naive(rows, key)
    shown = [(dict(entry.match), entry.priority, entry.params["n"]) for entry in one.entries()]
    assert shown == [(row.match, row.priority, row.data) for row in rows]


def test_a_modified_entry_is_seen_by_the_next_lookup() -> None:
    one = table("ternary")
    one.insert({"k0": Ternary(1, 1)}, "hit", {"n": 7}, 1)
    assert find(one, 3) == 7
    one.modify({"k0": Ternary(1, 1)}, "c.hit", {"n": 8}, 1)
    assert find(one, 3) == 8


def test_a_miss_takes_the_default_action_of_the_moment() -> None:
    one = table("exact")
    one.set_default("hit", {"n": 5})
    assert one.lookup(1).args == (5,)
    assert not one.lookup(1).hit
    one.reset_default()
    assert one.lookup(1).action == 0


@pytest.mark.parametrize(
    ("match", "action", "params", "priority", "error", "says"),
    [
        ({"k0": Exact(16)}, "hit", {"n": 1}, 0, ControlError, "k0: value 16, expected 0..0xf"),
        ({}, "hit", {"n": 1}, 0, ControlError, "k0: nothing, expected a match of kind exact"),
        ({"k0": Lpm(1, 4)}, "hit", {"n": 1}, 0, ControlError, "expected a match of kind exact"),
        ({"k1": Exact(1)}, "hit", {"n": 1}, 0, NotFoundError, "'k1': unknown, expected one of k0"),
        ({"k0": Exact(1)}, "hot", {}, 0, NotFoundError, "'hot': unknown, expected one of c.miss, c.hit"),
        ({"k0": Exact(1)}, "hit", {}, 0, ControlError, "parameter n is missing"),
        ({"k0": Exact(1)}, "hit", {"n": 1, "m": 2}, 0, NotFoundError, "'m': unknown, expected n"),
        ({"k0": Exact(1)}, "hit", {"n": 65536}, 0, ControlError, "value 65536, expected 0..0xffff"),
        ({"k0": Exact(1)}, "hit", {"n": 1}, 3, ControlError, "priority 3, expected 0"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(
    match: dict[str, MatchValue],
    action: str,
    params: dict[str, int],
    priority: int,
    error: type[Exception],
    says: str,
) -> None:
    with pytest.raises(error, match=r"table c\.t") as caught:
        table("exact").insert(match, action, params, priority)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "priority", "says"),
    [
        ("lpm", Lpm(0b0100, 1), 0, "expected 0 behind its 1 prefix bits"),
        ("lpm", Lpm(0, 5), 0, "prefix 5, expected 0..4"),
        ("ternary", Ternary(3, 1), 1, "expected 0 where mask 0x1 is 0"),
        ("ternary", Ternary(1, 1), 0, "priority 0, expected > 0"),
        ("range", Range(3, 2), 1, "expected low <= high"),
        ("optional", Ternary(1, 1), 1, "expected a match of kind optional"),
    ],
)
def test_a_match_out_of_form_is_refused(kind: str, value: MatchValue, priority: int, says: str) -> None:
    with pytest.raises(ControlError) as caught:
        table(kind).insert({"k0": value}, "hit", {"n": 1}, priority)
    assert says in str(caught.value)


def test_an_optional_key_matches_one_value_or_all() -> None:
    one = table("optional")
    one.insert({"k0": Exact(3)}, "hit", {"n": 1}, 2)
    one.insert({}, "hit", {"n": 2}, 1)
    assert (find(one, 3), find(one, 4)) == (1, 2)


def test_a_full_table_takes_no_more() -> None:
    one = table("exact", size=2)
    for value in range(2):
        one.insert({"k0": Exact(value)}, "hit", {"n": value})
    with pytest.raises(TableFullError, match="2 entries"):
        one.insert({"k0": Exact(2)}, "hit", {"n": 2})
    one.delete({"k0": Exact(0)})
    one.insert({"k0": Exact(2)}, "hit", {"n": 2})
    assert (find(one, 0), find(one, 2)) == (None, 2)


def test_an_entry_that_is_not_there_cannot_be_changed() -> None:
    with pytest.raises(NotFoundError, match="k0=0x1"):
        table("exact").delete({"k0": Exact(1)})
    with pytest.raises(NotFoundError, match="of priority 9"):
        table("ternary").modify({"k0": Ternary(1, 1)}, "hit", {"n": 1}, 9)


def test_const_entries_and_default_cannot_be_changed() -> None:
    one = Table("c.t", [KeySpec("k0", 4, "exact")], ACTIONS, default=(0, ()), const_default=True)
    one.add((Exact(1),), 1, (9,), const=True)
    one.const_entries = True
    with pytest.raises(ReadOnlyError):
        one.delete({"k0": Exact(1)})
    with pytest.raises(ReadOnlyError):
        one.insert({"k0": Exact(2)}, "hit", {"n": 1})
    with pytest.raises(ReadOnlyError):
        one.set_default("hit", {"n": 1})
    one.clear()
    assert find(one, 1) == 9


def test_actions_keep_to_their_place() -> None:
    actions = (ActionSpec("a", (), in_entries=False), ActionSpec("b", (), as_default=False))
    one = Table("t", [KeySpec("k", 4, "exact")], actions, default=(0, ()))
    with pytest.raises(ControlError, match="@defaultonly"):
        one.insert({"k": Exact(1)}, "a", {})
    with pytest.raises(ControlError, match="@tableonly"):
        one.set_default("b", {})
