"""The pieces of secure aggregation: keys, masks, sealed shares, signatures."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedballot.wire.secagg.messages import NONCE, SecaggError

Residues = npt.NDArray[np.unsignedinteger]


def derive(secret: bytes, *context: str | int, length: int = 32) -> bytes:
    """Bytes for one purpose out of a secret (HKDF-SHA256)."""
    info = "/".join(map(str, ("fedballot", *context))).encode()
    return HKDF(SHA256(), length, salt=None, info=info).derive(secret)


def private_key(seed: bytes, session: str) -> X25519PrivateKey:
    """The key that a 16-byte seed stands for, so that one block of shares restores it."""
    return X25519PrivateKey.from_private_bytes(derive(seed, "key", session))


def public_key(seed: bytes, session: str) -> bytes:
    """The public half of :func:`private_key`, 32 bytes."""
    return private_key(seed, session).public_key().public_bytes_raw()


def shared_secret(own: X25519PrivateKey, other: bytes) -> bytes:
    """What a private key and another's public key agree on, 32 bytes.

    Raises
    ------
    SecaggError
        With reason ``keys``.
    """
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:  # a point of small order
        raise SecaggError("keys", "a public key is not one") from error


def commitment(seed: bytes, session: str, client_id: int) -> bytes:
    """By which a restored seed is seen to be the right one, 32 bytes."""
    return derive(seed, "commitment", session, client_id)


# masks


def residue_type(bits: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type of integers modulo 2^bits."""
    width = next(width for width in (2, 4, 8) if bits <= 8 * width)
    return np.dtype(f"<u{width}")


def modulo(values: Residues, bits: int) -> Residues:
    """Integers modulo 2^bits, in the type that they have."""
    return np.asarray(values & values.dtype.type(2**bits - 1))


def mask(key: bytes, size: int, bits: int) -> Residues:
    """Integers modulo 2^bits, shape (size,), from the stream of AES-256-CTR; each key is used for one mask only."""
    dtype = residue_type(bits)
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(size * dtype.itemsize))
    return modulo(np.frombuffer(stream, dtype=dtype), bits)


def own_mask(seed: bytes, session: str, client_id: int, size: int, bits: int) -> Residues:
    """What a client adds from its own seed."""
    return mask(derive(seed, "own mask", session, client_id), size, bits)


def pair_mask(secret: bytes, sharing: str, own: int, other: int, size: int, bits: int) -> Residues:
    """What client ``own`` adds for ``other``, who adds the same with the other sign if it was shown the same so far."""
    low, high = sorted((own, other))
    values = mask(derive(secret, "mask", sharing, low, high), size, bits)
    return values if own == low else -values


# shares on their way


def seal(secret: bytes, content: bytes, view: str, sender: int, receiver: int) -> bytes:
    """Shares that only the receiver can read, and only if it was shown the same view: nonce, ciphertext and tag."""
    nonce = os.urandom(NONCE)
    return nonce + _cipher(secret, view, sender, receiver).encrypt(nonce, content, None)


def unseal(secret: bytes, content: bytes, view: str, sender: int, receiver: int) -> bytes:
    """What :func:`seal` was given.

    Raises
    ------
    SecaggError
        With reason ``shares``.
    """
    try:
        return _cipher(secret, view, sender, receiver).decrypt(content[:NONCE], content[NONCE:], None)
    except InvalidTag as error:
        raise SecaggError(
            "shares",
            f"the share from client {sender} is damaged, not from it, or made for another roster or request",
        ) from error


def _cipher(secret: bytes, view: str, sender: int, receiver: int) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(secret, "share", view, sender, receiver))


# signatures


def signing_key(seed: bytes, session: str) -> Ed25519PrivateKey:
    """The key with which a client signs the one list of a session."""
    return Ed25519PrivateKey.from_private_bytes(derive(seed, "signing", session))


def sign(key: Ed25519PrivateKey, statement: str) -> bytes:
    """A signature under a statement, 64 bytes."""
    return key.sign(_message(statement))


def has_signed(key: bytes, signature: bytes, statement: str) -> bool:
    """Whether the owner of a public key has signed this statement."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _message(statement))
    except (InvalidSignature, ValueError):  # ValueError: no point of the curve
        return False
    return True


def _message(statement: str) -> bytes:
    return f"fedballot/sum/{statement}".encode()
