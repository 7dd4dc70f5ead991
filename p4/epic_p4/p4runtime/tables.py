"""TableEntry messages to and from the switch's own entries, with the checks of the specification."""

from __future__ import annotations

from collections.abc import Mapping

from finsy.proto import p4r

from epic_p4.control.schema import Action, Field, Schema, Table, by_id
from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.p4runtime.values import decode, encode
from epic_p4.runtime.errors import ControlError
from epic_p4.runtime.match import Exact, Lpm, MatchValue, Range, TableEntry, Ternary

Match = dict[str, MatchValue]


def match_of(entry: p4r.TableEntry, table: Table) -> Match:
    """The match of an entry by key name; keys that match anything are left out. Raises ControlError or Refusal."""
    match: Match = {}
    for field in entry.match:
        key = by_id(table.keys, field.field_id, f"table {table.name}: match field", ControlError)
        if key.name in match:
            raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: key {key.name} is given twice")
        match[key.name] = _value(field, key, f"table {table.name}: key {key.name}")
    for key in table.keys:
        if key.kind == "exact" and key.name not in match:
            raise Refusal(
                Code.INVALID_ARGUMENT,
                f"table {table.name}: key {key.name} is missing, expected an exact value",
            )
    return match


def _value(field: p4r.FieldMatch, key: Field, what: str) -> MatchValue:
    given = field.WhichOneof("field_match_type")
    if given != key.kind:
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: match is {given or 'unset'}, expected {key.kind}")
    if given == "exact":
        return Exact(decode(field.exact.value, key.width, what))
    if given == "lpm":
        return _lpm(field.lpm, key, what)
    if given == "ternary":
        return _ternary(field.ternary, key, what)
    if given == "range":
        return _range(field.range, key, what)
    if given == "optional":
        # An optional key is a ternary one whose mask is all ones or left out.
        return Ternary(decode(field.optional.value, key.width, what), (1 << key.width) - 1)
    raise Refusal(Code.UNIMPLEMENTED, f"{what}: match kind {given} is not supported")


def _lpm(lpm: p4r.FieldMatch.LPM, key: Field, what: str) -> Lpm:
    value = decode(lpm.value, key.width, what)
    if not 1 <= lpm.prefix_len <= key.width:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"{what}: prefix length {lpm.prefix_len}, expected 1 to {key.width}; leave the key out to match anything",
        )
    if value & ((1 << key.width - lpm.prefix_len) - 1):
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"{what}: {value:#x} has bits behind its prefix of {lpm.prefix_len}, expected 0",
        )
    return Lpm(value, lpm.prefix_len)


def _ternary(ternary: p4r.FieldMatch.Ternary, key: Field, what: str) -> Ternary:
    value, mask = decode(ternary.value, key.width, what), decode(ternary.mask, key.width, f"{what}: mask")
    if mask == 0:
        raise Refusal(
            Code.INVALID_ARGUMENT, f"{what}: mask 0, expected some bits; leave the key out to match anything"
        )
    if value & ~mask:
        raise Refusal(
            Code.INVALID_ARGUMENT, f"{what}: {value:#x} has bits outside its mask {mask:#x}, expected 0"
        )
    return Ternary(value, mask)


def _range(limits: p4r.FieldMatch.Range, key: Field, what: str) -> Range:
    low, high = decode(limits.low, key.width, f"{what}: low"), decode(limits.high, key.width, f"{what}: high")
    if low > high:
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: {low} to {high}, expected low <= high")
    if low == 0 and high == (1 << key.width) - 1:
        raise Refusal(
            Code.INVALID_ARGUMENT, f"{what}: all values, expected some; leave the key out to match anything"
        )
    return Range(low, high)


def priority_of(entry: p4r.TableEntry, table: Table) -> int:
    """The priority, which must be there exactly where a key is ternary, range or optional. Raises Refusal."""
    if table.takes_priority and entry.priority <= 0:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"table {table.name}: priority = {entry.priority}, expected a positive number",
        )
    if not table.takes_priority and entry.priority:
        raise Refusal(
            Code.INVALID_ARGUMENT,
            f"table {table.name}: priority = {entry.priority}, expected 0: no key is ternary, range or optional",
        )
    return entry.priority


def action_of(entry: p4r.TableEntry, table: Table, schema: Schema) -> tuple[Action, dict[str, int]]:
    """The action and its parameters by name. Raises ControlError or Refusal."""
    kind = entry.action.WhichOneof("type") if entry.HasField("action") else None
    if kind is None:
        raise Refusal(Code.INVALID_ARGUMENT, f"table {table.name}: action is missing")
    if kind != "action" or table.indirect:
        raise Refusal(
            Code.INVALID_ARGUMENT if not table.indirect else Code.UNIMPLEMENTED,
            f"table {table.name}: action is given as {kind}, expected a plain action (no action profiles)",
        )
    given = entry.action.action
    action = schema.action(given.action_id)
    allowed, other = table.entry_actions, table.default_actions
    place = "in an entry"
    if entry.is_default_action:
        allowed, other, place = other, allowed, "as the default action"
    if action.id not in allowed:
        code = Code.PERMISSION_DENIED if action.id in other else Code.INVALID_ARGUMENT
        raise Refusal(code, f"table {table.name}: action {action.name} may not stand {place}")
    params: dict[str, int] = {}
    where = f"table {table.name}: action {action.name}"
    for value in given.params:
        param = by_id(action.params, value.param_id, f"{where}: parameter", ControlError)
        if param.name in params:
            raise Refusal(Code.INVALID_ARGUMENT, f"{where}: parameter {param.name} is given twice")
        try:
            params[param.name] = decode(value.value, param.width, f"{where}: parameter {param.name}")
        except Refusal as error:
            # For parameters, unlike keys, the specification asks for this code.
            raise Refusal(Code.INVALID_ARGUMENT, error.message) from None
    for param in action.params:
        if param.name not in params:
            raise Refusal(Code.INVALID_ARGUMENT, f"{where}: parameter {param.name} is missing")
    return action, params


def to_message(entry: TableEntry, table: Table, schema: Schema, *, default: bool = False) -> p4r.TableEntry:
    """The message of an entry of the switch, or of a table's default action."""
    message = p4r.TableEntry(
        table_id=table.id, priority=entry.priority, is_default_action=default, is_const=entry.const
    )
    for key in table.keys:
        value = entry.match.get(key.name)
        if value is not None and not _anything(value, key):
            message.match.append(_field(value, key))
    action = schema.action_named(entry.action)
    message.action.action.CopyFrom(action_message(action, entry.params))
    return message


def action_message(action: Action, params: Mapping[str, int]) -> p4r.Action:
    """The message of an action with its parameters."""
    message = p4r.Action(action_id=action.id)
    for param in action.params:
        message.params.add(param_id=param.id, value=encode(params[param.name]))
    return message


def _anything(value: MatchValue, key: Field) -> bool:
    match value:
        case Ternary(_, mask):
            return mask == 0
        case Lpm(_, prefix):
            return prefix == 0
        case Range(low, high):
            return low == 0 and high == (1 << key.width) - 1
    return False


def _field(value: MatchValue, key: Field) -> p4r.FieldMatch:
    message = p4r.FieldMatch(field_id=key.id)
    match value:
        case Exact(number):
            message.exact.value = encode(number)
        case Lpm(number, prefix):
            message.lpm.value, message.lpm.prefix_len = encode(number), prefix
        case Ternary(number, mask) if key.kind == "optional":
            message.optional.value = encode(number)
        case Ternary(number, mask):
            message.ternary.value, message.ternary.mask = encode(number), encode(mask)
        case Range(low, high):
            message.range.low, message.range.high = encode(low), encode(high)
    return message
