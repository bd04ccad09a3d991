"""A pack's folder, written as a whole or not at all: its files, their hashes, and a signature of these."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedballot.core.errors import SettingsError
from fedballot.core.files import check_writable, sha256
from fedballot.deploy import pki
from fedballot.deploy.modes import check_private
from fedballot.deploy.server import ServerFolder

SUMS, SIGNATURE, SIGNER = "SHA256SUMS", "SHA256SUMS.sig", "signer.crt"


@dataclass(frozen=True)
class Signer:
    """Who signs a pack.

    Attributes
    ----------
    key : elliptic-curve private key; the server's is P-384.
    certificate : PEM of its certificate; None: it has none.
    """

    key: ec.EllipticCurvePrivateKey
    certificate: bytes | None


def read_signer(place: Path) -> Signer:
    """The key to sign with: a server's folder, or the file of a private key (PEM, or OpenSSH as sites have it).

    Raises
    ------
    SettingsError
        If there is no such key, others can open it, it is none of an elliptic curve, or not the certificate's.
    """
    server = ServerFolder(place)
    path = server.key if place.is_dir() else place
    if not path.exists():
        raise SettingsError(f"--sign {place}: no key {path}; name the server's folder, or the file of a private key")
    check_private(path)
    content = path.read_bytes()
    load = (
        serialization.load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else serialization.load_pem_private_key
    )
    try:
        key = load(content, password=None)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"--sign {path}: not a private key without password ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SettingsError(f"--sign {path}: holds a {type(key).__name__}; expected an elliptic-curve key")
    if not (place.is_dir() and server.certificate.exists()):
        return Signer(key, None)
    if pki.read_certificates(server.certificate)[0].public_key() != key.public_key():
        raise SettingsError(
            f"--sign {path}: is not the key of {server.certificate}; `fedballot server renew` makes both"
        )
    return Signer(key, server.certificate.read_bytes())


@contextmanager
def new_pack(out: Path, signer: Signer | None) -> Iterator[Path]:
    """A folder to write a pack's files into; it stands at ``out`` once all are there, hashed and signed.

    Raises
    ------
    SettingsError
        If ``out`` is there and is not empty, or cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SettingsError(f"--out {out}: exists and is not empty; name a new folder")
    check_writable(out)
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))  # its owner's alone, as is what it tells
    try:
        yield folder
        _seal(folder, signer)
        folder.rename(out)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _seal(folder: Path, signer: Signer | None) -> None:
    if signer is not None and signer.certificate is not None:
        (folder / SIGNER).write_bytes(signer.certificate)
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    sums = "".join(lines).encode()
    (folder / SUMS).write_bytes(sums)
    if signer is not None:
        (folder / SIGNATURE).write_bytes(signer.key.sign(sums, ec.ECDSA(hashes.SHA384())))
