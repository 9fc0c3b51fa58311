"""A repository of backups: a place with an identity, whose files are parts.

Above ``part`` and ``herdpy.log.place``; below ``pages``, ``archive`` and ``manifest``. Its layout::

    herdpy-repository.json                      its id, and how it is encrypted; the only file that is no part
    logs/<log id>/log                           the tablespace, and the log that this one began from
    logs/<log id>/entries/<first>-<last>        the log's entries (``archive``)
    logs/<log id>/staged/<ledger>-<number>      rows of loads that those entries name
    logs/<log id>/backups/<backup id>/manifest  a backup (``manifest``), written last
    logs/<log id>/backups/<backup id>/...       its pages (``pages``)
    clusters/<id>                               backups of a cluster's tablespaces that belong together

Files are written once and never changed. Several processes may write at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from herdpy.backup.errors import MissingPartError, RepositoryError
from herdpy.backup.part import PartCodec
from herdpy.log.place import Place, without_userinfo
from herdpy.machine import sync_all

IDENTITY: Final = "herdpy-repository.json"
FORMAT: Final = 1
_KEY_BYTES = 32
_AES = "aes-256-gcm"
_MAX_KEY_FILE_BYTES = 4096


class _Identity(msgspec.Struct, frozen=True):
    """What ``herdpy-repository.json`` says.

    Attributes:
        encryption: ``aes-256-gcm`` or None.
        key_check: of the key, with which a wrong one is found before anything is read or written.
    """

    id: str
    format: int = FORMAT
    encryption: str | None = None
    key_check: str | None = None


class Repository:
    """An open repository; threads may share it. All methods block.

    Attributes:
        url: where it is.
        id: its name for itself.
        codec: of its parts.
        place: its files.
    """

    def __init__(self, place: Place, codec: PartCodec) -> None:
        self.place = place
        self.codec = codec
        self.url = place.url
        self.id = codec.repository

    @classmethod
    def open(cls, url: str, key: bytes | None = None) -> Repository:
        """One that is there.

        Args:
            key: as ``read_key`` gives it, for one that is encrypted.

        Raises:
            RepositoryError: there is none, its format is not known, or the key is not its.
            PlaceError: the place cannot be read.
        """
        place = Place(url)
        try:
            data = place.read(IDENTITY)
        except FileNotFoundError:
            raise RepositoryError(
                f"there is no repository of backups at {without_userinfo(url)}",
                hint="herdpy backup makes one.",
            ) from None
        return cls(place, _codec(url, data, key))

    @classmethod
    def create(cls, url: str, key: bytes | None = None) -> Repository:
        """One that is there, or a new one where there is none; two that make it at once share one.

        Raises: as :meth:`open`.
        """
        place = Place(url)
        made = secrets.token_hex(16)
        check = None if key is None else _key_check(made, key)
        new = _Identity(made, encryption=None if key is None else _AES, key_check=check)
        if not place.exists(IDENTITY):
            place.put_new(IDENTITY, msgspec.json.format(msgspec.json.encode(new)) + b"\n")
        return cls.open(url, key)

    @staticmethod
    def is_encrypted(url: str) -> bool | None:
        """Whether the repository there is; None where there is none. RepositoryError; PlaceError."""
        try:
            return _identity(url, Place(url).read(IDENTITY)).encryption is not None
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """The contents of a part.

        Raises:
            MissingPartError: it is gone.
            DamagedPartError: it is not what was written.
            PlaceError: the place cannot be read.
        """
        try:
            data = self.place.read(name)
        except FileNotFoundError:
            raise MissingPartError(name) from None
        return self.codec.decode(name, data)

    def write(self, name: str, contents: bytes | bytearray | memoryview) -> int:
        """Write a part; returns the file's size in bytes. PlaceError."""
        data = self.codec.encode(name, contents)
        self.place.put(name, data)
        return len(data)

    def sizes(self, directory: str = "") -> dict[str, int]:
        """Bytes of every file in a directory and below, by name. PlaceError."""
        return self.place.sizes(directory)

    def delete(self, name: str) -> None:
        """Remove a file; nothing when it is not there. PlaceError."""
        self.place.delete(name)

    def clear(self, directory: str) -> None:
        """Remove a directory with all that is in it; nothing when it is not there. PlaceError."""
        Place.below(self.place, directory).clear()


def _identity(url: str, data: bytes) -> _Identity:
    try:
        found = msgspec.json.decode(data, type=_Identity)
    except msgspec.MsgspecError as error:
        raise RepositoryError(f"{without_userinfo(url)}/{IDENTITY} cannot be read: {error}") from error
    if found.format != FORMAT or found.encryption not in (None, _AES):
        raise RepositoryError(
            f"{without_userinfo(url)} has format {found.format}, encryption {found.encryption},"
            " which this HerdPy does not know"
        )
    return found


def _codec(url: str, data: bytes, key: bytes | None) -> PartCodec:
    found = _identity(url, data)
    url = without_userinfo(url)
    if found.encryption is None and key is not None:
        raise RepositoryError(f"{url} is not encrypted", hint="Leave out the key file, or use another place.")
    if found.encryption is not None and key is None:
        raise RepositoryError(f"{url} is encrypted", hint="Name its key file: --key-file FILE.")
    if key is not None and _key_check(found.id, key) != found.key_check:
        raise RepositoryError(f"the key is not the one of {url}")
    return PartCodec(found.id, key)


def _key_check(repository: str, key: bytes) -> str:
    return hashlib.sha256(b"herdpy backup key check" + repository.encode() + key).hexdigest()[:32]


# Key files.


def new_key_file(path: Path) -> None:
    """Make a key file that its owner alone reads. FileExistsError; OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(os.urandom(_KEY_BYTES)) + b"\n")
        file.flush()
        sync_all(file.fileno())


def read_key(path: Path) -> bytes:
    """The key in a file: base64 of 32 bytes. RepositoryError: the file has none; OSError."""
    with path.open("rb") as file:
        text = file.read(_MAX_KEY_FILE_BYTES)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise RepositoryError(f"{path} is no key file: it must have {_KEY_BYTES} bytes in base64")
    return key
