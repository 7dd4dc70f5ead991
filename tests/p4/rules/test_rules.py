"""Each rule: a program that keeps it, and a mutant that breaks it at the place marked @@."""

from __future__ import annotations

import pytest

from p4.rules.programs import findings, place, register, register_action, source

R = register("r")
ADD = register_action("add", "r", "value = value + hdr.data.a; rv = value;")
GET = register_action("get", "r", "rv = value;")
TWO = R + ADD + GET


def table(name: str, actions: str, key: str = "hdr.data.x : exact;", rest: str = "") -> str:
    keys = f"key = {{ {key} }}" if key else ""
    return f"    table {name} {{ {keys} actions = {{ {actions} }} {rest} }}\n"


KEEPS = {
    "a register in two branches": source(
        "if (hdr.data.x == 1) { meta.m = add.execute(meta.s); } else { meta.m = get.execute(meta.s); }", TWO
    ),
    "a register in two actions of a table": source(
        "t.apply();",
        TWO
        + "action one() { meta.m = add.execute(meta.s); }\n action two() { meta.m = get.execute(meta.s); }\n"
        + table("t", "one; two;"),
    ),
    "a register after a branch that returned": source(
        "if (hdr.data.x == 1) { meta.m = add.execute(meta.s); return; } meta.m = get.execute(meta.s);", TWO
    ),
    "a register for one action_run": source(
        "switch (t.apply().action_run) { one: { } two: { meta.n = get.execute(meta.s); } default: { } }",
        TWO
        + "action one() { meta.m = add.execute(meta.s); }\n action two() { }\n"
        + table("t", "one; two; NoAction;", rest="const default_action = NoAction();"),
    ),
    "a register on a miss only": source(
        "if (t.apply().miss) { meta.n = get.execute(meta.s); }",
        TWO
        + "action one() { meta.m = add.execute(meta.s); }\n"
        + table("t", "one; NoAction;", rest="const default_action = NoAction();"),
    ),
    "pairs and bits": source(
        "",
        register("p", "pair_t")
        + register("b", "bit<1>")
        + register("w", "bit<64>")
        + register("h", "bit<16>"),
    ),
    "two comparisons, one of them twice": source(
        "meta.m = a.execute(meta.s);",
        R
        + register_action(
            "a",
            "r",
            "if (value > hdr.data.a) { value = hdr.data.a; } else if (value <= hdr.data.a && value == 3)"
            " { value = 0; } rv = value;",
        ),
    ),
    "four large constants": source(
        "meta.m = a.execute(meta.s);",
        R
        + register_action(
            "a", "r", "if (value == 100) { value = 200; } else { value = 32w0xFFFFFFFE; } rv = value;"
        ),
    ),
    "old value returned, new one stored": source(
        "meta.m = a.execute(meta.s);", R + register_action("a", "r", "rv = value; value = hdr.data.a;")
    ),
    "one operation each": source(
        "meta.m = hdr.data.a + hdr.data.b; meta.n = hdr.data.a & ~hdr.data.b; hdr.data.h = hdr.data.h - 1;"
        " meta.s = hdr.data.x ++ hdr.data.y;"
    ),
    "a copy before an operation": source(
        "go();", "action go() { meta.m = hdr.data.a; meta.n = meta.m + 1; }"
    ),
    "action data added": source(
        "t.apply();",
        "action go(bit<32> k) { meta.m = hdr.data.a + k; meta.n = k - hdr.data.b; }\n" + table("t", "go;"),
    ),
    "wide equality in a table, four bytes in an if": source(
        "if (hdr.data.a == 7 && hdr.data.x == 1) { meta.m = 1; }"
    ),
    "four bytes compared with each other": source("if (hdr.data.a == hdr.data.b) { meta.m = 1; }"),
    "other registers by other indices in other actions": source(
        "t.apply();",
        TWO
        + register("q")
        + register_action("other", "q", "rv = value;")
        + "action one() { meta.m = add.execute(meta.s); }\n action two() { meta.n = other.execute(hdr.data.h); }\n"
        + table("t", "one; two; NoAction;", rest="default_action = NoAction();"),
    ),
    "order in twelve bits": source("if (hdr.data.h[11:0] < 100) { meta.m = 1; }"),
    "order with zero": source("if (hdr.data.a > 0) { meta.m = 1; }"),
    "a hash in an entry's action": source(
        "t.apply();",
        TWO
        + "action one() { meta.m = add.execute(meta.s); }\n"
        + table("t", "one; NoAction;", rest="default_action = NoAction();"),
    ),
    "one index in a table": source(
        "t.apply();",
        TWO
        + register("q")
        + register_action("other", "q", "rv = value;")
        + "action one() { meta.m = add.execute(meta.s); meta.n = other.execute(meta.s); }\n"
        + table("t", "one; NoAction;", rest="default_action = NoAction();"),
    ),
    "a checksum in the deparser": source(
        deparser="if (hdr.data.isValid()) { hdr.data.h = sum.update({hdr.data.a}); }",
        deparser_locals="Checksum() sum;\n",
    ),
    "an egress that is bypassed has an empty parser": source().replace(
        "pkt.extract(eg_intr_md); pkt.extract(hdr.eth);", ""
    ),
    "sizes of headers are constants": source(
        "hdr.data.h = (bit<16>)(sizeInBytes(hdr.eth) + sizeInBytes(hdr.data)) + hdr.data.i;"
    ),
    "saturation in a register": source(
        "meta.m = a.execute(meta.s);",
        R + register_action("a", "r", "value = value |+| hdr.data.a; rv = value;"),
    ),
    "a table in two branches": source(
        "if (hdr.data.x == 1) { t.apply(); } else { t.apply(); }",
        "action go() { meta.m = 1; }\n" + table("t", "go;"),
    ),
}

BREAKS = {
    "register-once": [
        source("meta.m = add.execute(meta.s); meta.n = @@get.execute(meta.s);", TWO),
        source("if (hdr.data.x == 1) { meta.m = add.execute(meta.s); } meta.n = @@get.execute(meta.s);", TWO),
        source(
            "t.apply(); meta.n = @@get.execute(meta.s);",
            TWO
            + "action one() { meta.m = add.execute(meta.s); }\n"
            + table("t", "one; NoAction;", rest="default_action = NoAction();"),
        ),
        source(
            "meta.m = add.execute(meta.s); c.apply(meta);",
            TWO + "    C(get) c;\n",
            top="control C(inout meta_t meta)(RegisterAction<bit<32>, bit<16>, bit<32>> look) {\n"
            "    apply { meta.n = @@look.execute(meta.s); }\n}\n",
        ),
        source(
            "switch (t.apply().action_run) { one: { meta.n = @@get.execute(meta.s); } default: { } }",
            TWO
            + "action one() { meta.m = add.execute(meta.s); }\n action two() { }\n"
            + table("t", "one; two; NoAction;", rest="const default_action = NoAction();"),
        ),
        source(
            "c.count(meta.s); if (hdr.data.x == 1) { @@c.count(hdr.data.h); }",
            "Counter<bit<32>, bit<16>>(64, CounterType_t.PACKETS) c;\n",
        ),
    ],
    "register-type": [
        source(
            "", "    Register<bit<24>, bit<16>>(64) @@r;\n" + register_action("g", "r", "rv = 0;", "bit<24>")
        ),
        source(
            "",
            "    Register<odd_t, bit<16>>(64) @@r;\n" + register_action("g", "r", "rv = value.lo;", "odd_t"),
            top="struct odd_t { bit<32> lo; bit<16> hi; }",
        ),
        source(
            "",
            R
            + "".join(register_action(f"a{n}", "r", f"value = value + {n};") for n in range(4))
            + register_action("@@a4", "r", "rv = value;"),
        ),
    ],
    "register-action": [
        source(
            "meta.m = a.execute(meta.s);",
            R
            + register_action(
                "a",
                "r",
                "if (value == 1) { value = 2; } else if (value == 2 || @@value == 3) { value = 1; } rv = value;",
            ),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R
            + register_action(
                "a",
                "r",
                "value = hdr.data.a + hdr.data.b; rv = value; if (value == @@hdr.data.c) { value = 1; }",
            ),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R + register_action("a", "r", "value = @@value * 3; rv = value;"),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R + register_action("a", "r", "value = @@value << hdr.data.x; rv = value;"),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R + register_action("a", "r", "value = (@@value + hdr.data.a) ^ hdr.data.b; rv = value;"),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            register("p", "pair_t")
            + register_action("a", "p", "value.lo = hdr.data.a; @@rv = hdr.data.b;", "pair_t"),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R
            + register_action(
                "a",
                "r",
                "if (value == 100) { value = 200; } else if (value == 300) { value = value + 400; } rv = 0;"
                " if (value == 300) { rv = @@500; }",
            ),
        ),
        source(
            "meta.m = a.execute(meta.s);",
            R + register_action("a", "r", "if ((@@value & 1) == hdr.data.a) { value = 0; } rv = value;"),
        ),
    ],
    "action-alu": [
        source("meta.m = (@@hdr.data.a | hdr.data.b) ^ hdr.data.c;"),
        source("meta.m = @@hdr.data.a * hdr.data.b;"),
        source("meta.m = @@hdr.data.a << hdr.data.x;"),
        source("hdr.data.t = @@hdr.data.t + 1;"),
        source("meta.nibble = @@meta.nibble - 1;"),
        source("t.apply();", "action go(bit<32> k) { meta.m = @@hdr.data.a - k; }\n" + table("t", "go;")),
        source("go();", "action go() { meta.m = hdr.data.a + 1; meta.n = @@meta.m + 1; }"),
        source("t.apply();", "action go() { if (@@hdr.data.x == 1) { meta.m = 1; } }\n" + table("t", "go;")),
        source("go();", R + ADD + "action go() { meta.s = hdr.data.h + 1; @@meta.m = add.execute(meta.s); }"),
    ],
    "gateway-width": [
        source("if (@@hdr.data.a < 5000) { meta.m = 1; }"),
        source("if (@@hdr.data.a == 1 && hdr.data.b == 2) { meta.m = 1; }"),
        source("if (@@hdr.data.a == hdr.data.b && hdr.data.c == 1) { meta.m = 1; }"),
        source("if (hdr.data.x == 0 && @@hdr.data.y < hdr.data.z) { meta.m = 1; }"),
        source("if (@@hdr.data.x + 1 == 3) { meta.m = 1; }"),
    ],
    "default-hash": [
        source(
            "t.apply();",
            TWO
            + "action one() { @@meta.m = add.execute(meta.s); }\n"
            + table("t", "one; NoAction;", rest="default_action = one();"),
        ),
        source(
            "t.apply();",
            "Hash<bit<16>>(HashAlgorithm_t.CRC16) h;\n"
            "action one() { @@meta.s = h.get({hdr.data.a}); }\n"
            + table("t", "one; NoAction;", rest="default_action = one();"),
        ),
    ],
    "shared-index": [
        source(
            "t.apply();",
            TWO
            + "action one() { meta.m = add.execute(meta.s); }\n action two() { meta.m = @@get.execute(hdr.data.h); }\n"
            + table("t", "one; two; NoAction;", rest="default_action = NoAction();"),
        ),
        source(
            "t.apply();",
            TWO
            + register("q")
            + register_action("other", "q", "rv = value;")
            + "action one() { meta.m = add.execute(meta.s); meta.n = @@other.execute(hdr.data.h); }\n"
            + table("t", "one; NoAction;", rest="default_action = NoAction();"),
        ),
    ],
    "table-once": [
        source("t.apply(); @@t.apply();", "action go() { meta.m = 1; }\n" + table("t", "go;")),
    ],
    "one-gress": [
        source(
            "meta.s = 1; c.count(meta.s);",
            egress="@@c.count(meta.s);",
            top="Counter<bit<32>, bit<16>>(64, CounterType_t.PACKETS) c;",
        ),
    ],
    "deparser": [
        source(deparser="hdr.data.h = @@hdr.data.h + 1;"),
        source("hdr.data.h = @@sum.update({hdr.data.a});", "Checksum() sum;\n"),
    ],
    "intrinsic-metadata": [source(extract="").replace("parser IP(", "parser @@IP(")],
}


@pytest.mark.parametrize("name", KEEPS)
def test_a_program_that_keeps_the_rules_has_no_findings(name: str) -> None:
    assert findings(KEEPS[name]) == []


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in BREAKS.items() for text in texts])
def test_a_mutant_is_found_by_its_rule_at_its_place(rule: str, text: str) -> None:
    plain, (line, column) = place(text)
    found = findings(plain)
    assert [(one.rule, one.pos.line, one.pos.column) for one in found] == [(rule, line, column)], [
        str(one) for one in found
    ]
    assert ", expected " in found[0].what


def test_every_rule_has_a_mutant() -> None:
    from epic_p4.rules.checks import RULES

    assert {rule.name for rule in RULES} == set(BREAKS)


def test_tofino_2_allows_more() -> None:
    """Given four comparisons and a mask, then Tofino 1 refuses and Tofino 2 takes them."""
    text = source(
        "meta.m = a.execute(meta.s);",
        R
        + register_action(
            "a", "r", "if ((value & 1) == 1 || value == 2 || value == 3) { value = 1; } rv = value;"
        ),
    )
    assert len(findings(text, 1)) == 2
    assert findings(text, 2) == []
