"""A file system that forgets, at a power cut, what was written and not synchronised: a layer under SQLite, made with ctypes.

Started as a script it serves an application over a database in a folder, creates studies, and at every 202 saves what a disk
would still hold if the power were cut then. It prints the studies' ids.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from app.server.application import create_app
from app.storage import session as storage
from app.storage.session import Database
from app.storage.upgrade import upgrade
from tests.study_jobs import SMALL

# https://www.sqlite.org/c3ref/vfs.html and .../c3ref/io_methods.html: places of pointers in the two structures
_VFS_OPEN = 5
_READ, _SYNC, _SIZE = 2, 5, 6
_OPEN_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)
_SYNC_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_READ_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_SIZE_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
_METHODS = 19  # words of io_methods, its version first


def library() -> ctypes.CDLL:
    """The SQLite that Python's own module has loaded."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    found = re.search(r"\S*libsqlite3\.so\S*", maps)
    return ctypes.CDLL(found[0] if found else _sqlite3.__file__)


class ForgetfulDisk:
    """What a disk holds of each file: its content when it was last synchronised."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self._paths: dict[int, str] = {}  # by open file
        self._kept: list[Any] = []  # that C points to

    def install(self) -> None:
        """From now on every file that SQLite opens is watched."""
        sqlite = library()
        sqlite.sqlite3_vfs_find.restype = ctypes.c_void_p
        # int iVersion, szOsFile, mxPathname fill two words; then pNext, zName, pAppData and xOpen.
        vfs = (ctypes.c_void_p * 8).from_address(sqlite.sqlite3_vfs_find(None))
        opened = _OPEN_TYPE(vfs[_VFS_OPEN])

        def watched(vfs_: int, name: int | None, file: int, flags: int, out: Any) -> int:
            code = opened(vfs_, name, file, flags, out)
            if code == 0 and name is not None:
                path = self._paths[file] = ctypes.string_at(name).decode()  # SQLite keeps the pointer
                if Path(path).stat().st_size == 0:  # new, perhaps in place of one that was deleted
                    self.held[path] = b""
                methods = ctypes.c_void_p.from_address(file)
                methods.value = self._watched_methods(methods.value)
            return int(code)

        replaced = _OPEN_TYPE(watched)
        self._kept += [opened, replaced]
        vfs[_VFS_OPEN] = ctypes.cast(replaced, ctypes.c_void_p).value

    def _watched_methods(self, methods: int | None) -> int:
        assert methods is not None
        copy = (ctypes.c_void_p * _METHODS)()
        ctypes.memmove(copy, methods, ctypes.sizeof(copy))
        synchronise, read, size = _SYNC_TYPE(copy[_SYNC]), _READ_TYPE(copy[_READ]), _SIZE_TYPE(copy[_SIZE])

        def synchronised(file: int, flags: int) -> int:
            # Read with SQLite's own functions: to open and close the file here would give up its locks.
            code, length = synchronise(file, flags), ctypes.c_int64()
            size(file, length)
            content = ctypes.create_string_buffer(length.value)
            read(file, content, length.value, 0)
            self.held[self._paths[file]] = content.raw
            return int(code)

        watched = _SYNC_TYPE(synchronised)
        copy[_SYNC] = ctypes.cast(watched, ctypes.c_void_p).value
        self._kept += [copy, synchronise, read, size, watched]
        return ctypes.addressof(copy)

    def save(self, folder: Path) -> None:
        """The files as they would be after a power cut now."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path, content in self.held.items():
            if Path(path).exists():
                (folder / Path(path).name).write_bytes(content)


def main(folder: Path, synchronous: str, num_studies: int) -> None:
    """Creates studies one by one; after each, the image of that moment is in ``folder``."""
    disk = ForgetfulDisk()
    disk.install()
    set_up = storage._set_up_sqlite

    def with_synchronous(connection: Any, record: object, **limits: Any) -> None:
        set_up(connection, record, **limits)
        if synchronous != "as shipped":
            connection.execute(f"pragma synchronous={synchronous}")

    storage._set_up_sqlite = with_synchronous
    url = f"sqlite:///{folder / 'studies.db'}"
    upgrade(url)
    with Database(url) as database, TestClient(create_app(database), base_url="http://127.0.0.1:8765") as api:
        for number in range(num_studies):
            answer = api.post("/v1/studies", json=SMALL)
            disk.save(folder / f"image-{number}")
            assert answer.status_code == 202, answer.text
            sys.stdout.write(f"study {answer.json()['id']}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
