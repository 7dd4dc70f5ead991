"""Topologies: what a file may say, the tree that follows, and a clear line for what it may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_spec.errors import ConfigError
from epic_testbed import topology

PAIR = """
root = "s0"

[hosts]
h0 = {}
h1 = {}

[switches]
s0 = {}

[[links]]
child = "h0"
parent = "s0"

[[links]]
child = "h1"
parent = "s0"
"""


def link(child: str, parent: str, more: str = "") -> str:
    """A [[links]] table."""
    return f'\n[[links]]\nchild = "{child}"\nparent = "{parent}"\n{more}\n'


def write(folder: Path, text: str) -> str:
    """A topology file."""
    path = folder / "t.toml"
    path.write_text(text)
    return str(path)


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    found, ranks = topology.load(write(tmp_path, PAIR))
    assert (found.name, found.root, found.hosts, ranks) == ("t", "s0", ("h0", "h1"), 2)
    assert found.tree(2).children == {"s0": (0, 1)}


def test_the_root_is_found_where_the_file_does_not_name_it() -> None:
    found, _ = topology.parse(PAIR.replace('root = "s0"\n', ""), "t")
    assert found.root == "s0"


def test_ranks_are_placed_as_the_file_says_and_go_round() -> None:
    found, ranks = topology.parse('ranks = ["h1", "h1", "h0"]\n' + PAIR, "t")
    assert ranks == 3
    assert [found.host_of(rank) for rank in range(5)] == ["h1", "h1", "h0", "h1", "h1"]


def test_links_carry_mtu_and_rate() -> None:
    text = PAIR.replace('child = "h0"', 'child = "h0"\nmtu = 9000\nrate_gbps = 100')
    found, _ = topology.parse(text, "t")
    assert (found.links[0].mtu, found.links[0].rate_gbps) == (9000, 100.0)
    assert (found.links[1].mtu, found.links[1].rate_gbps) == (None, None)


@pytest.mark.parametrize("name", topology.BUILT_IN)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13, 64])
def test_every_world_size_works_on_every_built_in(name: str, ranks: int) -> None:
    found, count = topology.load(name, ranks)
    tree = found.tree(count)
    assert sorted(tree.ranks_below(tree.root)) == list(range(ranks))
    assert all(tree.children[engine] for engine in tree.engines())
    assert set(tree.engines()) == set(tree.children)


def test_a_switch_without_ranks_below_is_left_out() -> None:
    found, _ = topology.load("1-2-4", 2)
    assert found.tree(2).children == {"s0": ("s1",), "s1": (0, 1)}
    assert [found.child for found in found.used_links(2)] == ["s1", "h0", "h1"]


def test_the_built_in_trees_have_their_levels() -> None:
    assert [topology.load(name, 8)[0].tree(8).depth() for name in topology.BUILT_IN] == [1, 2, 3]


@pytest.mark.parametrize("ranks", [0, -1, 65])
def test_an_impossible_number_of_ranks_is_refused(ranks: int) -> None:
    with pytest.raises(ConfigError, match=rf"ranks = {ranks}, expected 1 to 64"):
        topology.load("single", ranks)


BAD = {
    "unknown key": (PAIR.replace("root =", "rot ="), "unknown key 'rot', expected one of"),
    "unknown key of a host": (
        PAIR.replace("h0 = {}", "h0 = { adress = 1 }"),
        "hosts.h0: unknown key 'adress'",
    ),
    "unknown key of a link": (PAIR + link("h1", "s0", "speed = 1"), "links[2]: unknown key 'speed'"),
    "two parents": (
        PAIR.replace("s0 = {}", "s0 = {}\ns1 = {}") + link("s1", "s0") + link("h0", "s1"),
        "'h0' has two parents, 's0' and 's1', expected one",
    ),
    "cycle": (
        PAIR.replace("s0 = {}", "s0 = {}\ns1 = {}\ns2 = {}") + link("s1", "s2") + link("s2", "s1"),
        "is a cycle, expected a tree",
    ),
    "everything on a cycle": (
        PAIR.replace('root = "s0"', "").replace("s0 = {}", "s0 = {}\ns1 = {}")
        + link("s0", "s1")
        + link("s1", "s0"),
        "form a cycle",
    ),
    "linked to itself": (PAIR + link("s0", "s0"), "linked to itself"),
    "unreachable rank": (
        PAIR.replace("h1 = {}", "h1 = {}\nh2 = {}").replace("s0 = {}", "s0 = {}\ns1 = {}") + link("h2", "s1"),
        "rank 2 on host 'h2' does not reach root 's0'",
    ),
    "host without a link": (PAIR.replace("h1 = {}", "h1 = {}\nh2 = {}"), "host 'h2', which has no link"),
    "rank on a switch": ('ranks = ["h0", "s0"]\n' + PAIR, "ranks[1] = 's0' is a switch, expected a host"),
    "rank on an unknown host": ('ranks = ["h9"]\n' + PAIR, "ranks[0] = 'h9', expected the name of a host"),
    "ranks not a list": ("ranks = 4\n" + PAIR, "ranks = 4, expected a list"),
    "duplicate address": (
        PAIR.replace("h0 = {}", 'h0 = { address = "127.0.0.9" }').replace(
            "h1 = {}", 'h1 = { address = "127.0.0.9" }'
        ),
        "h1.address = '127.0.0.9' is also that of 'h0'",
    ),
    "not an address": (PAIR.replace("h0 = {}", 'h0 = { address = "127.0.0" }'), "expected an IPv4 address"),
    "multicast address": (PAIR.replace("h0 = {}", 'h0 = { address = "224.0.0.1" }'), "expected a unicast"),
    "duplicate name": (PAIR.replace("h1 = {}", "h1 = {}\ns0 = {}"), "'s0' is under [hosts] and [switches]"),
    "the same host twice": (PAIR.replace("h1 = {}", "h0 = {}"), "not TOML"),
    "unknown node in a link": (PAIR + link("h7", "s0"), "links[2]: child = 'h7', expected the name"),
    "parent is a host": (PAIR.replace("s0 = {}", "s0 = {}\ns1 = {}") + link("s1", "h0"), "is a host"),
    "link without a child": (PAIR + '\n[[links]]\nparent = "s0"\n', "links[2]: child = None"),
    "two roots": (
        PAIR.replace('root = "s0"', "").replace("s0 = {}", "s0 = {}\ns1 = {}"),
        "s0 and s1 have no parent, expected one root",
    ),
    "root with a parent": (
        PAIR.replace("s0 = {}", "s0 = {}\ns1 = {}") + link("s0", "s1"),
        "root 's0' has the parent 's1'",
    ),
    "unknown root": (
        PAIR.replace('root = "s0"', 'root = "h0"'),
        "root = 'h0', expected the name of a switch",
    ),
    "MTU too small": (PAIR + link("h1", "s0", "mtu = 20"), "mtu = 20, expected 68 to 65535"),
    "rate of nothing": (PAIR + link("h1", "s0", "rate_gbps = 0"), "rate_gbps = 0, expected a number"),
    "no hosts": ("[switches]\ns0 = {}\n", "hosts = None, expected a table [hosts]"),
    "no links": ("[hosts]\nh0 = {}\n[switches]\ns0 = {}\n", "links = None, expected at least one"),
    "name that reads as a rank": (PAIR.replace("s0", "r0"), "reads as a rank"),
    "name with a slash": (PAIR.replace("h0 = {}", '"a/b" = {}'), "hosts name 'a/b', expected a letter"),
    "host that is a number": (PAIR.replace("h0 = {}", "h0 = 1"), "hosts.h0 = 1, expected a table"),
    "not TOML": ("hosts = [", "not TOML"),
    "empty": ("", "hosts = None"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(case: str, tmp_path: Path) -> None:
    text, expected = BAD[case]
    name = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        topology.load(name)
    message = str(caught.value)
    assert expected in message
    assert message.startswith(name)
    assert "\n" not in message


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'nowhere.toml' not found, expected single, 1-2-4, 3-level or a TOML file"
    ):
        topology.load("nowhere.toml")
    with pytest.raises(ConfigError, match="Is a directory, expected a readable TOML file"):
        topology.load(str(tmp_path))
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        topology.load(str(tmp_path / "b.toml"))
