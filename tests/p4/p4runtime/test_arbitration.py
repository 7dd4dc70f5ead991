"""Who is primary, step by step as the specification says, without a stream."""

from __future__ import annotations

import pytest
from finsy.proto import U128, p4r

from epic_p4.p4runtime.arbitration import Arbitration
from epic_p4.p4runtime.status import Code, Refusal

OK, PRIMARY_ELSEWHERE, NO_PRIMARY = Code.OK, Code.ALREADY_EXISTS, Code.NOT_FOUND


def update(election: int | None, device: int = 1, role: str = "") -> p4r.MasterArbitrationUpdate:
    """What a client sends."""
    message = p4r.MasterArbitrationUpdate(device_id=device)
    if election is not None:
        message.election_id.CopyFrom(U128.encode(election))
    if role:
        message.role.name = role
    return message


def told(notices: list[tuple[object, p4r.StreamMessageResponse]]) -> list[tuple[object, int]]:
    """Who is told what."""
    return [(session, response.arbitration.status.code) for session, response in notices]


def test_the_first_client_is_primary() -> None:
    arbitration = Arbitration(1)
    notices = arbitration.update("a", update(5))
    assert told(notices) == [("a", OK)]
    assert U128.decode(notices[0][1].arbitration.election_id) == 5
    assert arbitration.primary() == "a"


def test_a_lower_client_is_backup_and_only_it_is_told() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    notices = arbitration.update("b", update(3))
    assert told(notices) == [("b", PRIMARY_ELSEWHERE)]
    assert U128.decode(notices[0][1].arbitration.election_id) == 5


def test_a_higher_client_takes_over_and_hears_it_last() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.update("b", update(3))
    assert told(arbitration.update("c", update(1 << 64))) == [
        ("a", PRIMARY_ELSEWHERE),
        ("b", PRIMARY_ELSEWHERE),
        ("c", OK),
    ]


def test_when_the_primary_leaves_nobody_follows_by_itself() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.update("b", update(3))
    assert told(arbitration.leave("a")) == [("b", NO_PRIMARY)]
    assert arbitration.primary() is None
    assert told(arbitration.update("b", update(4))) == [("b", NO_PRIMARY)]
    assert told(arbitration.update("b", update(5))) == [("b", OK)]


def test_who_follows_with_the_same_election_id_is_made_known_to_all() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.update("b", update(3))
    arbitration.leave("a")
    assert told(arbitration.update("c", update(5))) == [("b", PRIMARY_ELSEWHERE), ("c", OK)]


def test_when_a_backup_leaves_nobody_is_told() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.update("b", update(3))
    assert arbitration.leave("b") == []


def test_a_primary_that_steps_down_tells_all() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.update("b", update(3))
    assert told(arbitration.update("a", update(2))) == [("a", NO_PRIMARY), ("b", NO_PRIMARY)]


def test_without_an_election_id_a_client_is_never_primary() -> None:
    arbitration = Arbitration(1)
    notices = arbitration.update("a", update(None))
    assert told(notices) == [("a", NO_PRIMARY)]
    assert not notices[0][1].arbitration.HasField("election_id")
    assert told(arbitration.update("b", update(0))) == [("a", PRIMARY_ELSEWHERE), ("b", OK)]
    arbitration.update("c", update(None))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (update(5, device=2), Code.NOT_FOUND),
        (update(3), Code.INVALID_ARGUMENT),
        (update(5, role="monitor"), Code.UNIMPLEMENTED),
    ],
)
def test_what_a_new_client_may_not_say(message: p4r.MasterArbitrationUpdate, code: Code) -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(3))
    with pytest.raises(Refusal) as error:
        arbitration.update("b", message)
    assert error.value.code is code
    assert arbitration.primary() == "a"


@pytest.mark.parametrize("message", [update(5, device=2), update(5, role="monitor")])
def test_a_live_client_cannot_change_device_or_role(message: p4r.MasterArbitrationUpdate) -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(3))
    with pytest.raises(Refusal) as error:
        arbitration.update("a", message)
    assert error.value.code is Code.FAILED_PRECONDITION


def test_a_role_configuration_is_refused() -> None:
    message = update(5)
    message.role.config.Pack(p4r.Uint128(low=1))
    with pytest.raises(Refusal) as error:
        Arbitration(1).update("a", message)
    assert error.value.code is Code.INVALID_ARGUMENT


def test_a_stream_too_many_is_refused() -> None:
    arbitration = Arbitration(1, most_sessions=2)
    arbitration.update("a", update(1))
    arbitration.update("b", update(2))
    with pytest.raises(Refusal, match="2 streams are open, expected at most 2") as error:
        arbitration.update("c", update(3))
    assert error.value.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("device", "role", "election", "code"),
    [
        (2, "", 5, Code.NOT_FOUND),
        (1, "monitor", 5, Code.NOT_FOUND),
        (1, "", 4, Code.PERMISSION_DENIED),
        (1, "", 6, Code.PERMISSION_DENIED),
    ],
)
def test_only_the_primary_may_write(device: int, role: str, election: int, code: Code) -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.check_primary(1, "", U128.encode(5))
    with pytest.raises(Refusal) as error:
        arbitration.check_primary(device, role, U128.encode(election))
    assert error.value.code is code


def test_after_the_primary_left_its_election_id_does_not_open_the_door() -> None:
    arbitration = Arbitration(1)
    arbitration.update("a", update(5))
    arbitration.leave("a")
    with pytest.raises(Refusal, match="there is no primary client"):
        arbitration.check_primary(1, "", U128.encode(5))
