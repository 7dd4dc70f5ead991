"""Faults put into the program text, each with the script that must find it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """In file `path` (below p4/) the only occurrence of `old` becomes `new`."""

    name: str
    path: str
    old: str
    new: str
    script: str
    arch: str = "v1model"

    def apply(self, path: str, text: str) -> str:
        """The text of a source file in the mutant."""
        if path != self.path:
            return text
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name}: {self.old!r} is {text.count(self.old)} times in {path}, expected once"
            )
        return text.replace(self.old, self.new)


MUTANTS = (
    Mutant(
        "no duplicate detection",
        "bmv2/slot.p4",
        "if ((map & meta.child_bit) != 0) {",
        "if (false) {",
        "a_repetition_before_the_cell_is_complete_is_dropped",
    ),
    Mutant(
        "no tag comparison: older is newer",
        "bmv2/slot.p4",
        "meta.age = AGE_OLDER;",
        "meta.age = AGE_NEWER;\n            map = 0;",
        "old_cells_are_stale",
    ),
    Mutant(
        "the window guard looks at the distance only",
        "bmv2/slot.p4",
        "(flag[0:0] == 0 || ahead",
        "(ahead",
        "the_window_guard_keeps_what_is_in_progress",
    ),
    Mutant(
        "the window guard looks at done only",
        "bmv2/slot.p4",
        " || ahead != ((meta.slot_mask + 1) << 8)",
        "",
        "the_window_guard_keeps_what_is_in_progress",
    ),
    Mutant(
        "a slot starts as one of another cell",
        "bmv2/slot.p4",
        "- meta.slot_mask - 1) << 8",
        "- meta.slot_mask) << 8",
        "a_slot_starts_as_if_an_older_cell_were_done",
    ),
    Mutant(
        "the root does not mark the slot done",
        "common/decide.p4",
        "meta.completed = 1;\n        meta.finished = 1;",
        "meta.completed = 1;",
        "a_replay_goes_to_one_child_alone",
    ),
    Mutant(
        "every child makes a partial go again",
        "common/decide.p4",
        "1, 1, 0, _, 1, 0): resend();",
        "1, 1, 0, _, _, 0): resend();",
        "only_the_lowest_child_makes_a_partial_go_again",
    ),
    Mutant(
        "a replay goes to all children",
        "common/decide.p4",
        "meta.sent = COUNTER_TX_REPLAY;\n        meta.send_to = meta.edge_id;",
        "meta.sent = COUNTER_TX_REPLAY;\n        meta.send_to = meta.children;",
        "a_replay_goes_to_one_child_alone",
    ),
    Mutant(
        "a duplicated result is multicast again",
        "common/decide.p4",
        "(KIND_RESULT, AGE_EQUAL, _, _, 1, 0, _, _, _): accept_result();",
        "(KIND_RESULT, AGE_EQUAL, _, _, 1, _, _, _, _): accept_result();",
        "an_inner_engine_passes_up_and_down",
    ),
    Mutant(
        "a result is taken for a cell that is not complete",
        "common/decide.p4",
        "(KIND_RESULT, AGE_EQUAL, _, _, 1, 0, _, _, _): accept_result();",
        "(KIND_RESULT, AGE_EQUAL, _, _, _, 0, _, _, _): accept_result();",
        "results_of_cells_that_are_not_complete_are_unexpected",
    ),
    Mutant(
        "an inner engine's replay is that of the partial",
        "common/decide.p4",
        "1, _, 1, 1, _, 0): replay(1);",
        "1, _, 1, 1, _, 0): replay(0);",
        "a_result_that_differs_from_the_partial_is_passed_on",
    ),
    Mutant(
        "the length is not compared",
        "bmv2/value.p4",
        "} else if (bytes != meta.bytes) {\n                    fault = 1;",
        "} else if (bytes != meta.bytes) {\n                    fault = fault;",
        "disagreement_poisons_the_cell",
    ),
    Mutant(
        "the descriptor is not compared",
        "bmv2/value.p4",
        "if (held != agreement) {",
        "if (false) {",
        "disagreement_poisons_the_cell",
    ),
    Mutant(
        "a poisoned cell counts each time",
        "bmv2/value.p4",
        "meta.poisoned = fault & ~poisoned;",
        "meta.poisoned = fault;",
        "a_cell_poisoned_twice_is_counted_once",
    ),
    Mutant(
        "a completing NULL contribution sends what it came with",
        "bmv2/value.p4",
        "(meta.counted == 0 || meta.operation == WORDS_KEEP)",
        "meta.counted == 0",
        "a_null_contribution_counts_and_adds_nothing",
    ),
    Mutant(
        "the first payload is added to what the slot held",
        "bmv2/value.p4",
        "bytes = meta.bytes;\n                    meta.operation = WORDS_WRITE;",
        "bytes = meta.bytes;",
        "old_cells_are_stale",
    ),
    Mutant(
        "MAX without sign",
        "bmv2/data.p4",
        "(int<32>)held > (int<32>)WORD(c, i)",
        "held > WORD(c, i)",
        "maximum_and_minimum_are_signed",
    ),
    Mutant(
        "a Broadcast is added",
        "common/prepare.p4",
        "combine(WORDS_OR)",
        "combine(WORDS_SUM)",
        "two_broadcast_payloads_are_combined_by_or",
    ),
    Mutant(
        "Pad bytes stay",
        "common/prepare.p4",
        "1: set_bytes(MINUS_EMPTY - 1, 0xffffff00);",
        "1: set_bytes(MINUS_EMPTY - 1, 0xffffffff);",
        "broadcast_of_any_length",
    ),
    Mutant(
        "engines' acknowledgements are returned too",
        "common/prepare.p4",
        "(1, 0, true, ROLE_HOST, 1, _, _): reflection();",
        "(1, 0, true, _, 1, _, _): reflection();",
        "acknowledgements_of_hosts_are_returned",
    ),
    Mutant(
        "MAX that is not offered is computed",
        "common/prepare.p4",
        "4w5 &&& 4w5",
        "4w1 &&& 4w1",
        "what_the_group_lacks_poisons_the_cell",
    ),
    Mutant(
        "the limit is that of the program",
        "common/prepare.p4",
        "(1, 0, false, _, _, 1, _): refuse(COUNTER_DROP_OVERSIZE);",
        "(1, 0, false, _, _, 1, _): contribution();",
        "payloads_above_the_group_limit_are_oversize",
    ),
    Mutant(
        "the P_Key is not looked at",
        "common/admission.p4",
        "(0, 1, 1, 1, 0): refuse(COUNTER_DROP_PKEY);",
        "(0, 1, 1, 1, 0): admit();",
        "a_frame_must_come_over_its_edge",
    ),
    Mutant(
        "the port is not looked at",
        "common/admission.p4",
        "(0, 1, 0, _, _): refuse(COUNTER_DROP_WRONG_PORT);",
        "(0, 1, 0, 1, 1): admit();",
        "a_frame_must_come_over_its_edge",
    ),
    Mutant(
        "a Reduce's result goes to everybody",
        "common/edge_out.p4",
        "meta.suppressed == 1",
        "false",
        "a_reduce_result_has_a_payload_only_where_its_rank_is",
    ),
    Mutant(
        "a Reduce's partial is suppressed",
        "common/edge_out.p4",
        "(meta.sent == COUNTER_TX_RESULT || meta.sent == COUNTER_TX_REPLAY)",
        "meta.sent != 0",
        "a_reduce_result_has_a_payload_only_where_its_rank_is",
    ),
    Mutant(
        "an acknowledgement keeps the results' PSN",
        "common/frame.p4",
        "meta.cell + meta.ack_base;",
        "meta.cell + meta.data_base;",
        "acknowledgements_of_hosts_are_returned",
    ),
    Mutant(
        "a congested cell looks like any",
        "common/frame.p4",
        "hdr.ipv4.ecn = ECN_CE;",
        "hdr.ipv4.ecn = ECN_ECT0;",
        "congestion_is_carried_on",
    ),
    Mutant(
        "Ethernet padding is sent on",
        "bmv2/egress.p4",
        "truncate(14 + (bit<32>)hdr.ipv4.total_length);",
        "",
        "fields_that_a_receiver_ignores",
    ),
    Mutant(
        "the ICRC is not verified",
        "bmv2/ingress.p4",
        "if (hdr.icrc.value != expected) {",
        "if (false) {",
        "a_wrong_icrc_is_dropped",
    ),
    Mutant(
        "the ICRC lists fields of a header that may not be there",
        "bmv2/checksum.p4",
        "hdr.aeth, hdr.immdt",
        "hdr.aeth.syndrome, hdr.aeth.msn, hdr.immdt",
        "sums_of_every_length",
    ),
    Mutant(
        "the ICRC covers TTL",
        "bmv2/checksum.p4",
        "hdr.ipv4.fragment_offset, 8w0xff, hdr.ipv4.protocol, 16w0xffff",
        "hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, 16w0xffff",
        "sums_of_every_length",
    ),
    Mutant(
        "the chunk of 16 words is missed at 16 to 19 words",
        "common/transport_parser.p4",
        "16w0x070 &&& 16w0x070 : state; 16w0x000 &&& 16w0x060 : state;",
        "16w0x000 &&& 16w0x060 : state;",
        "sums_of_every_length",
    ),
    Mutant(
        "a tag in the stateful ALU never grows",
        "tofino/slot.p4",
        "if ((int<32>)(meta.cell - value) > 0) {",
        "if (false) {",
        "old_cells_are_stale",
        "tna",
    ),
    Mutant(
        "a stateful comparison without sign",
        "tofino/slot.p4",
        "if ((int<32>)(meta.cell - value) > 0) {",
        "if (meta.cell > value) {",
        "sums_of_every_length",
        "tna",
    ),
    Mutant(
        "the second word of a pair is not given back",
        "tofino/data.p4",
        "        b = (bit<32>)second; \\",
        "        \\",
        "sums_of_every_length",
        "tna",
    ),
    Mutant(
        "READ adds to the repeated contribution",
        "common/shape.p4",
        "if (meta.operation == WORDS_READ) {",
        "if (false) {",
        "a_replay_goes_to_one_child_alone",
        "tna",
    ),
    Mutant(
        "a chunk of one word is left out",
        "tofino/data.p4",
        "#define OPERATE_last(c) OPERATE_WORD(c, 0)",
        "#define OPERATE_last(c)",
        "sums_of_every_length",
        "tna",
    ),
    Mutant(
        "the length of a cell is always its first payload's",
        "tofino/value.p4",
        "(1, 0): first_length();",
        "(1, _): first_length();",
        "a_null_contribution_counts_and_adds_nothing",
        "tna",
    ),
    Mutant(
        "the first payload joins what the register pair held",
        "tofino/value.p4",
        "(1, _, _, _, 0): operate(WORDS_WRITE);   // the first payload",
        "",
        "old_cells_are_stale",
        "tna",
    ),
    Mutant(
        "a result makes a slot live that has served nothing",
        "tofino/slot.p4",
        "add(2, 2, 1);",
        "add(2, 2, 3);",
        "a_slot_starts_as_if_an_older_cell_were_done",
        "tna",
    ),
    Mutant(
        "the root's last contribution leaves the slot undone",
        "tofino/slot.p4",
        "(KIND_CONTRIBUTION, 0, 0, 0, _, 1): finish();",
        "(KIND_CONTRIBUTION, 0, 0, 0, _, 1): complete();",
        "a_replay_goes_to_one_child_alone",
        "tna",
    ),
    Mutant(
        "a repetition carries its congestion into the slot",
        "tofino/slot.p4",
        "(KIND_CONTRIBUTION, 0, _, _, _, _): look_at_flags(AGE_EQUAL, 1, 0);",
        "(KIND_CONTRIBUTION, 0, _, _, _, _): join();",
        "congestion_of_a_repetition_stays_out",
        "tna",
    ),
)
