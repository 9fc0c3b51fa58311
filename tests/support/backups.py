"""Databases made of backups, the short way: the image, and the log applied as recovery does."""

from __future__ import annotations

from pathlib import Path

from herdpy.backup.archive import read_entries, read_staged
from herdpy.backup.manifest import BackupManifest
from herdpy.backup.pages import packs_of, read_map, read_pack
from herdpy.backup.repository import Repository
from herdpy.log.entry import TransactionAssembler
from herdpy.log.records import LoadBatch
from herdpy_server.store import Store
from herdpy_server.tablespace.directory import seed


def image_of(repository: Repository, manifest: BackupManifest) -> bytes:
    """The image of a backup, page by page as the repository has it."""
    image, log_id = manifest.image, manifest.log_id
    pages = read_map(repository, log_id, image.backup, image.maps)
    assert len(pages) == image.pages
    assert set(pages.used_sources()) <= set(manifest.sources)
    found = bytearray(image.pages * image.page_bytes)
    for use in packs_of(pages, log_id):
        for page, data in read_pack(repository, pages, use, image.page_bytes):
            found[page * image.page_bytes : page * image.page_bytes + len(data)] = data
    return bytes(found)


def put_together(repository: Repository, manifest: BackupManifest, path: Path) -> Path:
    """Make the database of a backup, as of its end, in ``path``."""
    scratch = path.with_name(f"{path.name}.scratch")
    scratch.mkdir()
    (scratch / "data.mdb").write_bytes(image_of(repository, manifest))
    store = Store.open(scratch)
    assert store.durable == manifest.image_lsn
    assert store.disk.uuid == manifest.image.store_uuid
    assembler = TransactionAssembler(manifest.image_lsn, manifest.image.crc)
    log_id = manifest.log_id
    for entry in read_entries(repository, log_id, manifest.image_lsn, manifest.image.crc, manifest.end_lsn):
        whole = assembler.feed(entry)
        for _lsn, transaction in whole:
            for record in transaction.records:
                if isinstance(record, LoadBatch):
                    rows = [b"".join(read_staged(repository, log_id, part)) for part in record.parts]
                    record.staged = [bytearray(one) for one in rows]
        store.apply_logged(assembler.safe, whole)
    store.flush()
    lsn = store.durable
    store.close()
    path.mkdir()
    seed(path, scratch / "data.mdb", lsn)
    return path
