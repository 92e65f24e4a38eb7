"""Encryption of a stream with a passphrase, in the age format (age-encryption.org/v1, recipient scrypt).

The programs `age` and `rage` open such a file, too: a backup can be read without Choir. Memory use is one
chunk, apart from scrypt, which needs 128 MB for a second: this is what slows a guessing attacker down.
"""

import base64
import hashlib
import hmac
import os
import re
from typing import BinaryIO, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from choir_common.errors import InvalidRequest
from choir_common.i18n import _

VERSION_LINE = b"age-encryption.org/v1\n"
SALT_LABEL = b"age-encryption.org/v1/scrypt"
CHUNK = 64 * 1024
TAG = 16
WORK = 17
"""Logarithm of scrypt's cost: 128 MB, as OWASP recommends."""
MAX_WORK = 20
"""A larger cost in a file of somebody else would take gigabytes of memory."""
HEADER = re.compile(
    rb"age-encryption\.org/v1\n-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n"
    rb"--- ([A-Za-z0-9+/]{43})\n"
)
MAX_HEADER = 256
WRONG = _("The passphrase is wrong, or the file was changed.")


class CleartextWriter(Protocol):
    """What an archive is written to."""

    def write(self, data: bytes, /) -> int:
        """Take all of `data`."""


class CleartextSource(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""


class AgeWriter:
    """Encrypting writer. `finish` writes the last chunk; without it the file cannot be read."""

    def __init__(self, file: BinaryIO, passphrase: bytes, *, work: int = WORK) -> None:
        file_key, salt = os.urandom(16), os.urandom(16)
        wrapped = _box(_wrap_key(passphrase, salt, work)).encrypt(bytes(12), file_key, None)
        head = VERSION_LINE + b"-> scrypt %b %d\n%b\n---" % (_encode(salt), work, _encode(wrapped))
        nonce = os.urandom(16)
        file.write(head + b" " + _encode(_header_mac(file_key, head)) + b"\n" + nonce)
        self._file = file
        self._chunks = _ChunkCipher(file_key, nonce)
        self._buffer = bytearray()

    def write(self, data: bytes, /) -> int:
        """Encrypt `data`."""
        self._buffer += data
        # the last chunk is marked, so one is kept back until it is known whether more follows
        while len(self._buffer) > CHUNK:
            self._file.write(self._chunks.encrypt(bytes(self._buffer[:CHUNK]), last=False))
            del self._buffer[:CHUNK]
        return len(data)

    def finish(self) -> None:
        """Write what is left."""
        self._file.write(self._chunks.encrypt(bytes(self._buffer), last=True))
        self._buffer.clear()


class AgeReader:
    """Decrypting reader; every byte it returns is authentic.

    Raises InvalidRequest for a wrong passphrase, and for a file that was changed or cut.
    """

    def __init__(self, file: BinaryIO, passphrase: bytes) -> None:
        match = HEADER.match(file.read(MAX_HEADER))
        if match is None:
            raise InvalidRequest(_("The file has no age header with a passphrase (scrypt)."))
        salt, wrapped, mac = (_decode(match[group]) for group in (1, 3, 4))
        work = int(match[2])
        if work > MAX_WORK:
            raise InvalidRequest(
                _("The file asks for scrypt with 2^{work}; 2^{max_work} is the most.").format(
                    work=work, max_work=MAX_WORK
                )
            )
        try:
            file_key = _box(_wrap_key(passphrase, salt, work)).decrypt(bytes(12), wrapped, None)
        except InvalidTag:
            raise InvalidRequest(WRONG) from None
        head = match[0][: match[0].rindex(b" ")]
        if not hmac.compare_digest(_header_mac(file_key, head), mac):
            raise InvalidRequest(WRONG)
        file.seek(match.end())
        self._file = file
        self._chunks = _ChunkCipher(file_key, _read_exactly(file, 16))
        self._next = file.read(CHUNK + TAG)
        self._clear = b""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        if not self._clear and self._next:
            chunk, self._next = self._next, self._file.read(CHUNK + TAG)
            self._clear = self._chunks.decrypt(chunk, last=not self._next)
        block, self._clear = self._clear[:size], self._clear[size:]
        return block


def is_encrypted(file: BinaryIO) -> bool:
    """Return whether the file begins like an age file; its position is the start afterwards."""
    begin = file.read(len(VERSION_LINE))
    file.seek(0)
    return begin == VERSION_LINE


class _ChunkCipher:
    """The cipher of the payload: a counter and a mark of the last chunk are each chunk's nonce."""

    def __init__(self, file_key: bytes, nonce: bytes) -> None:
        self._cipher = _box(_derive(file_key, nonce, b"payload"))
        self._count = 0

    def encrypt(self, chunk: bytes, *, last: bool) -> bytes:
        return self._cipher.encrypt(self._nonce(last), chunk, None)

    def decrypt(self, chunk: bytes, *, last: bool) -> bytes:
        first = self._count == 0
        try:
            clear = self._cipher.decrypt(self._nonce(last), chunk, None)
        except InvalidTag:
            raise InvalidRequest(_("The file was changed, or it is incomplete.")) from None
        if not clear and not first:
            raise InvalidRequest(_("The file ends with an empty chunk."))
        return clear

    def _nonce(self, last: bool) -> bytes:
        count, self._count = self._count, self._count + 1
        return count.to_bytes(11, "big") + bytes([last])


def _wrap_key(passphrase: bytes, salt: bytes, work: int) -> bytes:
    most = 160 * 8 * (1 << work) + (1 << 20)
    return hashlib.scrypt(
        passphrase, salt=SALT_LABEL + salt, n=1 << work, r=8, p=1, maxmem=most, dklen=32
    )


def _derive(file_key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt or None, info).derive(file_key)


def _header_mac(file_key: bytes, head: bytes) -> bytes:
    return hmac.digest(_derive(file_key, b"", b"header"), head, "sha256")


def _box(key: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(key)


def _encode(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    data = base64.b64decode(text + b"=" * (-len(text) % 4))
    # the last character has bits that count for nothing, and age demands that they are zero
    if _encode(data) != text:
        raise InvalidRequest(WRONG)
    return data


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise InvalidRequest(_("The file is incomplete."))
    return data
