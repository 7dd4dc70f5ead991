"""A small certificate authority for a fabric: `init` makes it, `issue` gives a role and name a certificate.

Keys are ECDSA P-256, never leave the folder, and are readable by their owner only. Certificates are short-lived (a day
by default) instead of revocable: what is stolen is worthless soon, and issuing anew is one command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from epic_host.security.roles import NAME, NAME_RULE, Role, uri, utc_now
from epic_host.security.tls import server_name
from epic_spec.errors import ConfigError

AUTHORITY_DAYS: Final = 3650.0
CERTIFICATE_HOURS: Final = 24.0
# A certificate holds from a little before it was made: clocks differ.
_SKEW: Final = timedelta(minutes=5)

# Who answers calls, and who makes them. The manager does both.
_SERVERS: Final = frozenset({Role.MANAGER, Role.ENGINE})
_CLIENTS: Final = frozenset({Role.NODE, Role.JOB, Role.ADMIN, Role.MANAGER})


@dataclass(frozen=True, slots=True)
class Issued:
    """The files of a certificate, and when it ends (UTC)."""

    ca: Path
    certificate: Path
    key: Path
    not_after: datetime


def init(folder: Path, days: float = AUTHORITY_DAYS, now: datetime | None = None) -> Issued:
    """Make an authority in `folder`: ca.crt and ca.key. Raises ConfigError when there is one."""
    _check_span(days, "days")
    now = now or utc_now()
    files = Issued(folder / "ca.crt", folder / "ca.crt", folder / "ca.key", now + timedelta(days=days))
    for path in (files.certificate, files.key):
        if path.exists():
            raise ConfigError(f"{path}: is there, expected a folder without an authority")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("EPIC authority")
    builder = (
        _builder(name, name, key, now, files.not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    _write(files.key, _key_pem(key), 0o600)
    _write(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return files


def issue(
    folder: Path, role: Role, name: str, hours: float = CERTIFICATE_HOURS, now: datetime | None = None
) -> Issued:
    """Give a role and name a new key and certificate of the authority in `folder`: ROLE-NAME.crt, ROLE-NAME.key.

    Those that are there are replaced. Raises ConfigError for a name that cannot be one, and where there is no authority
    or its certificate ends before the new one would.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"name = {name!r}, expected {NAME_RULE}")
    _check_span(hours, "hours")
    now = now or utc_now()
    authority, authority_key = _authority(folder)
    files = Issued(
        ca=folder / "ca.crt",
        certificate=folder / f"{role}-{name}.crt",
        key=folder / f"{role}-{name}.key",
        not_after=now + timedelta(hours=hours),
    )
    if files.not_after > authority.not_valid_after_utc:
        raise ConfigError(
            f"hours = {hours:g}: the certificate would outlive its authority, which ends "
            f"{authority.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_subject(f"{role} {name}"), authority.subject, key, now, files.not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(_purposes(role), critical=False)
        .add_extension(_names(role, name), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    certificate = builder.sign(authority_key, hashes.SHA256())
    _write(files.key, _key_pem(key), 0o600)
    _write(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return files


def _check_span(value: float, what: str) -> None:
    # Beyond 100 years dates of certificates end.
    if not 0 < value <= 24 * 36525:
        raise ConfigError(f"{what} = {value:g}, expected more than 0 and at most 100 years")


def _subject(text: str) -> x509.Name:
    # RFC 5280 gives a common name 64 characters; who the holder is stands in the URI, whole.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _purposes(role: Role) -> x509.ExtendedKeyUsage:
    purposes = []
    if role in _SERVERS:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if role in _CLIENTS:
        purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    return x509.ExtendedKeyUsage(purposes)


def _names(role: Role, name: str) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri(role, name))]
    if role in _SERVERS:
        names += [x509.DNSName(server_name(role)), x509.DNSName(server_name(role, name))]
    return x509.SubjectAlternativeName(names)


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(
            f"{error.filename}: {error.strerror}, expected an authority (epic pki init {folder})"
        ) from None
    except (ValueError, TypeError):
        raise ConfigError(f"{folder}: ca.crt or ca.key cannot be read, expected PEM files") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{key_file}: not an ECDSA key, expected the one that epic pki init made")
    return certificate, key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file whole or not at all, with its mode from its first byte on."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
