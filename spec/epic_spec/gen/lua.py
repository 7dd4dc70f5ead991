"""Generates `spec/epic.lua`: a Wireshark post-dissector that shows the cell descriptor of RoCEv2 packets.

Wireshark dissects RoCEv2 itself; its InfiniBand dissector gives the immediate as bytes (`infiniband.immdt`),
which this one reads. Field names: epic.imm, epic.rank, epic.primitive and so on.
"""

from __future__ import annotations

from typing import Any

from epic_spec.gen import NOTICE

_VALUES = {"primitive": "primitive", "operator": "operator", "datatype": "datatype"}

_DISSECTOR = """
local immediate = Field.new("infiniband.immdt")

function epic.dissector(buffer, pinfo, tree)
  -- The InfiniBand dissector gives the immediate twice, as a header and as the data in it.
  local info = immediate()
  if info == nil or info.range:len() ~= 4 then
    return
  end
  local range = info.range
  local word = range:uint()
  local subtree = tree:add(epic, range, "EPIC cell descriptor: " .. summary(word))
  subtree:add(fields.imm, range)
  for _, name in ipairs(order) do
    subtree:add(fields[name], range)
  end
  pinfo.cols.info:append(" | EPIC " .. summary(word))
end

register_postdissector(epic)
"""


def generate(spec: dict[str, Any]) -> str:
    """The text of epic.lua."""
    immdt = next(h for h in spec["header"] if h["name"] == "immdt")
    lines = [
        f"-- {NOTICE}",
        "-- Shows the cell descriptor of EPIC in the immediate data of RoCEv2 packets:",
        "--   wireshark -X lua_script:epic.lua    (or copy this file to the folder of personal Lua plugins)",
        "",
        'local epic = Proto("epic", "EPIC cell descriptor")',
        "",
    ]
    for table in _VALUES.values():
        pairs = ", ".join(f'[{row["code"]}] = "{row["name"]}"' for row in spec[table])
        lines.append(f"local {table}s = {{ {pairs} }}")
    lines += ["", "local fields = {", '  imm = ProtoField.uint32("epic.imm", "Immediate", base.HEX),']
    places = _places(immdt)
    for field in immdt["fields"]:
        lines.append(f"  {field['name']} = {_proto_field(field, *places[field['name']])},")
    names = ", ".join(f'"{field["name"]}"' for field in immdt["fields"])
    lines += ["}", f"local order = {{ {names} }}", "", "epic.fields = {", "  fields.imm,"]
    lines += [f"  fields.{field['name']}," for field in immdt["fields"]]
    lines += ["}", "", *_summary(spec, places)]
    return "\n".join(lines) + "\n" + _DISSECTOR


def _places(immdt: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Shift and mask, in the 32-bit immediate, of each field."""
    places, left = {}, 32
    for field in immdt["fields"]:
        left -= field["bits"]
        places[field["name"]] = (left, ((1 << field["bits"]) - 1) << left)
    return places


def _proto_field(field: dict[str, Any], shift: int, mask: int) -> str:
    name, text = field["name"], field["text"].replace('"', "'")
    label = name.upper() if name in ("null", "err") else name.capitalize()
    if name in _VALUES:
        return f'ProtoField.uint32("epic.{name}", "{label}", base.DEC, {name}s, {mask:#010x}, "{text}")'
    if field["bits"] == 1:
        return f'ProtoField.bool("epic.{name}", "{label}", 32, nil, {mask:#010x}, "{text}")'
    return f'ProtoField.uint32("epic.{name}", "{label}", base.DEC, nil, {mask:#010x}, "{text}")'


def _summary(spec: dict[str, Any], places: dict[str, tuple[int, int]]) -> list[str]:
    """A Lua function that says a descriptor in words, as `epic pcap` does."""
    none = next(row["code"] for row in spec["operator"] if row["name"] == "NONE")
    barrier = next(row["code"] for row in spec["primitive"] if row["name"] == "ALLREDUCE")

    def get(name: str) -> str:
        shift, mask = places[name]
        return f"bit.band(bit.rshift(word, {shift}), {mask >> shift:#x})"

    return [
        "local function name_of(names, code)",
        '  return names[code] or ("reserved " .. code)',
        "end",
        "",
        "local function summary(word)",
        f"  local primitive, operator = {get('primitive')}, {get('operator')}",
        f"  local datatype, rank, tag = {get('datatype')}, {get('rank')}, {get('tag')}",
        "  local text",
        f"  if primitive == {barrier} and operator == {none} then",
        '    text = "BARRIER"',
        "  else",
        '    text = name_of(primitives, primitive) .. " " .. name_of(operators, operator)',
        '      .. " " .. name_of(datatypes, datatype)',
        "  end",
        f"  if rank ~= {spec['constants']['no_rank']['value']} then",
        '    text = text .. " rank=" .. rank',
        "  end",
        '  text = text .. " tag=" .. tag',
        f'  if {get("null")} == 1 then text = text .. " NULL" end',
        f'  if {get("err")} == 1 then text = text .. " ERR" end',
        "  return text",
        "end",
    ]
