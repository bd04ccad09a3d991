"""Certificates and keys: an authority of the federation's own, the server's certificate, and each site's key."""

from __future__ import annotations

import ipaddress
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedballot.core.errors import SettingsError

AUTHORITY_DAYS = 3650
LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"(?!.{{254}})(?:\*\.)?{LABEL}(?:\.{LABEL})*\.?")
SERVER_DAYS = 397  # the longest that common TLS clients accept


def make_authority(certificate: Path, key: Path) -> None:
    """Write a new certificate authority: its certificate, and its private key (mode 600)."""
    secret = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedballot authority")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(secret.public_key())
    document = (
        _builder(name, name, secret.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(secret, hashes.SHA384())
    )
    write_private(key, _pem(secret))
    certificate.write_bytes(document.public_bytes(serialization.Encoding.PEM))


def make_server_certificate(
    authority: Path, authority_key: Path, hosts: tuple[str, ...], certificate: Path, key: Path
) -> None:
    """Write a server certificate for these host names and addresses, and its private key (mode 600).

    Raises
    ------
    SettingsError
        If the authority's certificate or key cannot be read, or is of another kind.
    """
    try:
        issuer_key = serialization.load_pem_private_key(authority_key.read_bytes(), password=None)
        issuer = _of_key(x509.load_pem_x509_certificates(authority.read_bytes()), issuer_key)
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(
            f"{authority} and {authority_key}: not a PEM certificate and its key without password: {error}"
        ) from error
    if issuer is None:
        raise SettingsError(f"{authority_key}: is the key of none of the certificates in {authority}")
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise SettingsError(f"{authority_key}: holds a {type(issuer_key).__name__}; expected an elliptic-curve key")
    secret = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    document = (
        _builder(subject, issuer.subject, secret.public_key(), SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA384())
    )
    write_private(key, _pem(secret))
    certificate.write_bytes(document.public_bytes(serialization.Encoding.PEM))


def make_site_key(private: Path) -> Path:
    """Write a site's private key (mode 600) and, beside it, the public key for the server; return the latter's path."""
    secret = ec.generate_private_key(ec.SECP384R1())
    write_private(
        private,
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        ),
    )
    public = private.with_name(private.name + ".pub")
    text = secret.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    public.write_bytes(text + b"\n")
    return public


def check_site_key(private: Path) -> None:
    """Refuse a file that holds no key that Flower's node authentication takes.

    Raises
    ------
    SettingsError
        If it is not an OpenSSH elliptic-curve private key without password.
    """
    try:
        secret = serialization.load_ssh_private_key(private.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(
            f"{private}: not an OpenSSH private key without password; make one with `fedballot site init`, or "
            f"ssh-keygen -t ecdsa -b 384 -N '' -C '' -f {private}"
        ) from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey):
        raise SettingsError(f"{private}: holds a {type(secret).__name__}; expected an elliptic-curve key (-t ecdsa)")


def check_certificate(path: Path) -> datetime:
    """The moment at which a file of PEM certificates ends: the last of those that hold now.

    Raises
    ------
    SettingsError
        If it cannot be read, or none of its certificates holds now.
    """
    certificates, now = read_certificates(path), datetime.now(UTC)
    ends = [one.not_valid_after_utc for one in certificates if one.not_valid_before_utc <= now]
    if not ends or max(ends) < now:
        first = certificates[0]
        raise SettingsError(
            f"{path}: valid from {first.not_valid_before_utc:%Y-%m-%d} to {first.not_valid_after_utc:%Y-%m-%d}, not "
            "now; check the clock, or ask for a new one (`fedballot server renew` makes it)"
        )
    return max(ends)


def read_certificates(path: Path) -> list[x509.Certificate]:
    """The certificates of a PEM file, at least one.

    Raises
    ------
    SettingsError
        If it cannot be read.
    """
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: not a PEM certificate ({error}); ask the server for its ca.crt") from error


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The names and addresses that a server's certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def check_pair(authority: Path, certificate: Path, key: Path) -> None:
    """Refuse a server's certificate that is not of this key, or not of this authority.

    Raises
    ------
    SettingsError
        Naming the two that do not belong together.
    """
    for path in (authority, certificate):
        check_certificate(path)
    try:
        secret = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"{key}: not a PEM private key without password ({error})") from error
    chain = read_certificates(certificate)
    if secret.public_key() != chain[0].public_key():
        raise SettingsError(f"{key}: is not the key of {certificate}; give the key that this certificate was made for")
    trusted = read_certificates(authority)
    for one, issuer in zip(chain, [*chain[1:], None], strict=True):
        for parent in trusted if issuer is None else [*trusted, issuer]:
            try:
                one.verify_directly_issued_by(parent)
            except (ValueError, TypeError, InvalidSignature):
                continue
            break
        else:
            raise SettingsError(f"{certificate}: was not signed by {authority}; give the authority that signed it")


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner may read.

    Raises
    ------
    SettingsError
        If it is already there: a key is never overwritten.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SettingsError(f"{path}: already there; a key is never overwritten, so name another folder") from None
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of sites may be behind
        .not_valid_after(now + timedelta(days=days))
    )


def _of_key(certificates: list[x509.Certificate], key: PrivateKeyTypes) -> x509.Certificate | None:
    return next((one for one in certificates if one.public_key() == key.public_key()), None)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def check_host(name: str) -> None:
    """Refuse a name that cannot stand in a certificate.

    Raises
    ------
    SettingsError
        If it is no address and no host name in ASCII.
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if not HOST.fullmatch(name):
            raise SettingsError(
                f"--host {name!r}: not a host name; expected letters, digits, '-' and '.' (names in other scripts in "
                "their ASCII form, xn--...), or an IP address, without a port"
            ) from None


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
