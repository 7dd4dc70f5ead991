"""Negotiation against a second opinion: every combination of values, tried one by one with real engines."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from epic_host.fabric.decision import Reason
from epic_host.fabric.negotiate import choices, negotiate
from epic_host.fabric.placement import Refusal
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Link
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.registry import make_engine
from epic_models.reference.tree import Tree, build_group
from host.fabric.fabrics import ask, some_request, some_state

SEEDS = st.integers(0, 2**32 - 1)


def some_offer(rng: Random, mode: int) -> EngineCapabilities:
    def some(values: tuple[str, ...], least: int = 1) -> tuple[str, ...]:
        return tuple(rng.sample(values, rng.randint(least, len(values))))

    return EngineCapabilities(
        mode=mode,
        window=rng.choice([1, 16, 64, 4096]),
        slots=rng.choice([2, 32, 8192]),
        payload_bytes=rng.choice([64, 256, 1024, 8192]),
        message_bytes=rng.choice([64, 4096, 1 << 20]),
        message_buffers=rng.choice([1, 16, 4096]),
        operators=some(("SUM", "MAX", "MIN")),
        datatypes=some(("INT32", "FP32", "FP16")),
        byte_order=some(("big", "little")),
        icrc=some(("full", "none")),
        partial_format=some(("input", "fp32")),
        ack_reflection=rng.random() < 0.5,
        window_guard=rng.random() < 0.5,
        conflict_record=rng.random() < 0.5,
        ordered=rng.random() < 0.5,
        ecn=rng.random() < 0.5,
    )


@given(SEEDS)
def test_terms_are_found_exactly_where_some_choice_of_values_serves_all_and_real_engines_take_them(
    seed: int,
) -> None:
    rng = Random(seed)
    fabric = some_state(rng).usage.fabric
    request = some_request(rng, fabric)
    request = ask("h0", **{k: getattr(request, k) for k in _ASKED})
    mode = rng.choice([1, 2, 3])
    modes = [mode if rng.random() < 0.95 else rng.choice([1, 2, 3]) for _ in range(rng.randint(1, 4))]
    offers = {f"s{i}": some_offer(rng, mode) for i, mode in enumerate(modes)}
    links = [Link(f"s{i + 1}", f"s{i}", mtu=rng.choice([1500, 9000])) for i in range(len(offers) - 1)]
    links.append(Link("h0", f"s{len(offers) - 1}", mtu=1500))
    terms = negotiate(request, offers, links)
    could = [
        choice
        for choice in choices(request, offers, [link.mtu for link in links])
        if all(choice.served_by(offer) for offer in offers.values()) and all(map(choice.carried_by, links))
    ]
    if isinstance(terms, Refusal):
        assert not could and terms.reason in (Reason.NO_CAPABILITY, Reason.MIXED_TREE)
        assert terms.about["engine"] in offers and "expected" in terms.text
        return
    best = could[0]
    assert (terms.mode, terms.ordered, terms.icrc) == (best.mode, best.ordered, best.icrc)
    assert (terms.byte_order, terms.partial_format) == (best.byte_order, best.partial_format)
    assert terms.payload_bytes == best.payload_bytes
    assert terms.cell_bytes == (best.message_bytes or best.payload_bytes)
    chain = Tree("s0", {f"s{i}": (f"s{i + 1}",) if i + 1 < len(offers) else (0,) for i in range(len(offers))})
    plan = build_group(chain, terms.params(request, 1, 1))
    for name, offer in offers.items():
        make_engine(offer.mode, offer).install(plan.engines[name], 0.0)
        assert not any(
            getattr(terms, option) < all(getattr(other, option) for other in offers.values())
            for option in ("window_guard", "conflict_record", "ecn")
        )
    # What stays for all epochs can be had again, with the same engines and any window up to that.
    again = negotiate(request, offers, links, terms)
    assert again == terms
    assert isinstance(again, Terms)


_ASKED = (
    *("modes", "payload_bytes", "window", "datatypes", "operators"),
    *("byte_order", "reproducible", "ack_reflection"),
)
