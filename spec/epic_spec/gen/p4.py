"""Generates `p4/include/epic_headers.p4`: P4-16 header types, typedefs and constants."""

from __future__ import annotations

from typing import Any, Final

from epic_spec.gen import CODE_FIELDS, NOTICE, code_of, counter_names, widths

# Constants that are values of a field have its width; the others are 32 bits.
_FIELD_OF: Final = {
    "udp_port": ("udp", "dst_port"),
    "default_pkey": ("bth", "pkey"),
    "no_rank": ("immdt", "rank"),
}

# A program uses some of the constants only.
_UNUSED: Final = '@noWarn("unused") '


def generate(spec: dict[str, Any]) -> str:
    """The text of epic_headers.p4."""
    width = widths(spec)
    lines = [
        f"// {NOTICE}",
        "// Headers and codes of EPIC for P4-16.",
        "#ifndef EPIC_HEADERS_P4",
        "#define EPIC_HEADERS_P4",
        "",
        f"typedef bit<{width['ethernet', 'dst_mac']}> mac_addr_t;",
        f"typedef bit<{width['ipv4', 'dst_ip']}> ipv4_addr_t;",
        f"typedef bit<{width['bth', 'dest_qpn']}> qpn_t;",
        f"typedef bit<{width['bth', 'psn']}> psn_t;",
        "",
    ]
    for name, row in spec["constants"].items():
        bits = width[_FIELD_OF[name]] if name in _FIELD_OF else 32
        lines.append(f"{_UNUSED}const bit<{bits}> {name.upper()} = {row['value']};  // {row['text']}")
    for table, field in CODE_FIELDS.items():
        lines.append("")
        for row in spec[table]:
            name = f"{table.upper()}_{row['name']}"
            lines.append(f"{_UNUSED}const bit<{width[field]}> {name} = {code_of(row):#04x};{_comment(row)}")
    mask = spec["syndrome"][0]["mask"]
    lines.append(f"{_UNUSED}const bit<{width['aeth', 'syndrome']}> SYNDROME_MASK = {mask:#04x};")
    lines += ["", "// Indices for counters, in the order of epic.toml."]
    for index, name in enumerate(counter_names(spec)):
        lines.append(f"{_UNUSED}const bit<8> COUNTER_{name.upper()} = {index};")
    lines.append(f"{_UNUSED}const bit<8> COUNTERS = {len(counter_names(spec))};")
    for header in spec["header"]:
        lines += ["", *_header(header)]
    lines += ["", *_header(_psn_word(spec)), "", *_header(_icrc(spec))]
    return "\n".join([*lines, "", "#endif", ""])


def _psn_word(spec: dict[str, Any]) -> dict[str, Any]:
    """The BTH with its last word in one piece.

    Targets have no 24-bit arithmetic; shifted left by 8 in a word of 32 bits, PSNs add and compare modulo 2^24.
    """
    bth = next(header for header in spec["header"] if header["name"] == "bth")
    last = [field for field in bth["fields"] if field["name"] in ("ackreq", "resv7", "psn")]
    word = {
        "name": "ackreq_psn",
        "bits": sum(field["bits"] for field in last),
        "text": "ackreq, resv7 and psn, for arithmetic on 32 bits",
    }
    fields = [*bth["fields"][: -len(last)], word]
    return {"name": "bth_word", "text": f"{bth['text']}, its last word in one piece", "fields": fields}


def _icrc(spec: dict[str, Any]) -> dict[str, Any]:
    bits = 8 * int(spec["constants"]["icrc_bytes"]["value"])
    field = {"name": "value", "bits": bits, "text": "sent least significant byte first"}
    return {"name": "icrc", "text": "the invariant CRC that ends a frame", "fields": [field]}


def _comment(row: dict[str, Any]) -> str:
    return f"  // {row['text']}" if row.get("text") else ""


def _header(header: dict[str, Any]) -> list[str]:
    lines = [f"// {header['text']}", f"header {header['name']}_h {{"]
    types = {"dst_mac": "mac_addr_t", "src_mac": "mac_addr_t", "dest_qpn": "qpn_t", "psn": "psn_t"}
    types |= {"src_ip": "ipv4_addr_t", "dst_ip": "ipv4_addr_t"}
    for field in header["fields"]:
        kind = types.get(field["name"], f"bit<{field['bits']}>")
        lines.append(f"    {kind} {field['name']};  // {field['text']}")
    return [*lines, "}"]
