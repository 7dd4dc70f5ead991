"""The authority: what `init` and `issue` make, who a certificate is of, and what cannot be issued."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.security import pki
from epic_host.security.roles import NAME, IdentityError, Role, identity, parse_uri, uri
from epic_spec.errors import ConfigError

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    pki.init(folder, now=NOW)
    return folder


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _purposes(certificate: x509.Certificate) -> set[str]:
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return {purpose._name for purpose in usage}


def test_keys_are_for_their_owner_only(authority: Path) -> None:
    issued = pki.issue(authority, Role.JOB, "train", now=NOW)
    assert _mode(issued.key) == _mode(authority / "ca.key") == 0o600
    assert _mode(issued.certificate) == 0o644


def test_a_key_is_never_readable_by_others_not_even_while_it_is_written(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        modes.append(_mode(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    pki.issue(authority, Role.NODE, "h0", now=NOW)
    assert modes == [0o600, 0o644]


def test_a_certificate_says_who_its_holder_is(authority: Path) -> None:
    issued = pki.issue(authority, Role.ADMIN, "alice", hours=2, now=NOW)
    who = identity(issued.certificate.read_bytes())
    assert (who.role, who.name) == (Role.ADMIN, "alice")
    assert who.not_after == NOW + timedelta(hours=2)


def test_a_certificate_is_of_its_authority_and_cannot_issue(authority: Path) -> None:
    issued = pki.issue(authority, Role.JOB, "train", now=NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes()))
    limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not limits.ca


@pytest.mark.parametrize(
    ("role", "purposes"),
    [
        (Role.NODE, {"clientAuth"}),
        (Role.JOB, {"clientAuth"}),
        (Role.ADMIN, {"clientAuth"}),
        (Role.MANAGER, {"clientAuth", "serverAuth"}),
        (Role.ENGINE, {"serverAuth"}),
    ],
)
def test_only_servers_may_serve(authority: Path, role: Role, purposes: set[str]) -> None:
    issued = pki.issue(authority, role, "x", now=NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    assert _purposes(certificate) == purposes
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    dns = names.get_values_for_type(x509.DNSName)
    assert dns == ([f"{role}.epic", f"x.{role}.epic"] if "serverAuth" in purposes else [])


def test_issuing_again_gives_a_new_key_and_leaves_nothing_else(authority: Path) -> None:
    first = pki.issue(authority, Role.JOB, "again", now=NOW).key.read_bytes()
    files = sorted(authority.iterdir())
    assert pki.issue(authority, Role.JOB, "again", now=NOW).key.read_bytes() != first
    assert sorted(authority.iterdir()) == files


def test_an_authority_is_not_overwritten(authority: Path) -> None:
    before = (authority / "ca.key").read_bytes()
    with pytest.raises(ConfigError, match="expected a folder without an authority"):
        pki.init(authority)
    assert (authority / "ca.key").read_bytes() == before


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "-a", "a" * 64, "é", "a\n"])
def test_a_name_that_could_be_something_else_is_refused(authority: Path, name: str) -> None:
    files = sorted(authority.iterdir())
    with pytest.raises(ConfigError, match="expected 1 to 63 letters"):
        pki.issue(authority, Role.JOB, name, now=NOW)
    assert sorted(authority.iterdir()) == files


@pytest.mark.parametrize("hours", [0.0, -1.0, float("nan"), float("inf")])
def test_a_span_that_is_none_is_refused(authority: Path, hours: float) -> None:
    with pytest.raises(ConfigError, match="hours = "):
        pki.issue(authority, Role.JOB, "x", hours=hours, now=NOW)


def test_no_certificate_outlives_its_authority(authority: Path) -> None:
    with pytest.raises(ConfigError, match="would outlive its authority"):
        pki.issue(authority, Role.JOB, "x", hours=24 * 3651, now=NOW)


def test_without_an_authority_nothing_is_issued(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca.crt: .*, expected an authority \(epic pki init"):
        pki.issue(tmp_path, Role.JOB, "x")


def test_what_is_no_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("x")
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(ConfigError, match="cannot be read, expected PEM files"):
        pki.issue(tmp_path, Role.JOB, "x")


# ---------------------------------------------------------------------------------------------- identities


def test_outside_its_time_a_certificate_is_nobodys(authority: Path) -> None:
    who = identity(pki.issue(authority, Role.JOB, "train", hours=1, now=NOW).certificate.read_bytes())
    who.check(NOW)
    for then in (NOW + timedelta(hours=1, seconds=1), NOW - timedelta(minutes=6)):
        with pytest.raises(IdentityError, match="certificate of job 'train': valid from"):
            who.check(then)


def test_the_authoritys_own_certificate_is_nobodys(authority: Path) -> None:
    with pytest.raises(IdentityError):
        identity((authority / "ca.crt").read_bytes())


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_what_is_no_certificate_is_nobodys(content: bytes) -> None:
    with pytest.raises(IdentityError):
        identity(content)


@given(st.sampled_from(Role), st.text("azAZ09_-", min_size=1, max_size=63).filter(NAME.fullmatch))
def test_a_uri_says_role_and_name(role: Role, name: str) -> None:
    assert parse_uri(uri(role, name)) == (role, name)


@pytest.mark.parametrize(
    "text", ["epic://root/x", "epic://job/", "epic://job/a/b", "epic://job", "epic:///x", ""]
)
def test_another_uri_is_nobodys(text: str) -> None:
    with pytest.raises(IdentityError, match="expected epic://"):
        parse_uri(text)
