-- Generated from spec/epic.toml by `epic spec gen`. Do not edit.
-- Shows the cell descriptor of EPIC in the immediate data of RoCEv2 packets:
--   wireshark -X lua_script:epic.lua    (or copy this file to the folder of personal Lua plugins)

local epic = Proto("epic", "EPIC cell descriptor")

local primitives = { [0] = "ALLREDUCE", [1] = "REDUCE", [2] = "BROADCAST" }
local operators = { [0] = "NONE", [1] = "SUM", [2] = "MAX", [3] = "MIN" }
local datatypes = { [0] = "INT32", [1] = "FP32", [2] = "FP16", [3] = "BF16", [4] = "INT8", [5] = "INT16", [6] = "INT64", [7] = "FP64" }

local fields = {
  imm = ProtoField.uint32("epic.imm", "Immediate", base.HEX),
  rank = ProtoField.uint32("epic.rank", "Rank", base.DEC, nil, 0xffff0000, "Reduce: destination; Broadcast: source; otherwise 0xFFFF"),
  primitive = ProtoField.uint32("epic.primitive", "Primitive", base.DEC, primitives, 0x0000c000, "see the table of primitives"),
  operator = ProtoField.uint32("epic.operator", "Operator", base.DEC, operators, 0x00003000, "see the table of operators"),
  datatype = ProtoField.uint32("epic.datatype", "Datatype", base.DEC, datatypes, 0x00000f00, "see the table of datatypes"),
  null = ProtoField.bool("epic.null", "NULL", 32, nil, 0x00000080, "no payload: the identity, or a suppressed result"),
  err = ProtoField.bool("epic.err", "ERR", 32, nil, 0x00000040, "poisoned: ranks disagree about this cell"),
  tag = ProtoField.uint32("epic.tag", "Tag", base.DEC, nil, 0x0000003f, "collective counter modulo 64"),
}
local order = { "rank", "primitive", "operator", "datatype", "null", "err", "tag" }

epic.fields = {
  fields.imm,
  fields.rank,
  fields.primitive,
  fields.operator,
  fields.datatype,
  fields.null,
  fields.err,
  fields.tag,
}

local function name_of(names, code)
  return names[code] or ("reserved " .. code)
end

local function summary(word)
  local primitive, operator = bit.band(bit.rshift(word, 14), 0x3), bit.band(bit.rshift(word, 12), 0x3)
  local datatype, rank, tag = bit.band(bit.rshift(word, 8), 0xf), bit.band(bit.rshift(word, 16), 0xffff), bit.band(bit.rshift(word, 0), 0x3f)
  local text
  if primitive == 0 and operator == 0 then
    text = "BARRIER"
  else
    text = name_of(primitives, primitive) .. " " .. name_of(operators, operator)
      .. " " .. name_of(datatypes, datatype)
  end
  if rank ~= 65535 then
    text = text .. " rank=" .. rank
  end
  text = text .. " tag=" .. tag
  if bit.band(bit.rshift(word, 7), 0x1) == 1 then text = text .. " NULL" end
  if bit.band(bit.rshift(word, 6), 0x1) == 1 then text = text .. " ERR" end
  return text
end

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
