# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a file are in the page cache."""

import ctypes
import mmap
import os
import time
from pathlib import Path

# mincore(2) tells of the page cache without touching it; Python has no name for it.
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def in_memory(path: Path) -> int:
    """Bytes of a file that are in the page cache."""
    size = path.stat().st_size
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with path.open("rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    failed = libc.mincore(address, size, pages)
    libc.munmap(address, size)
    assert failed == 0, os.strerror(ctypes.get_errno())
    return sum(byte & 1 for byte in pages.raw) * mmap.PAGESIZE


def forget(path: Path) -> None:
    """Puts a file out of the page cache. What was just sent by sendfile stays until the other side has it."""
    deadline = time.monotonic() + 20
    with path.open("rb") as file:
        os.fsync(file.fileno())
        while True:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if in_memory(path) == 0:
                return
            assert time.monotonic() < deadline, "the tests are in memory: nothing can be shown"
            time.sleep(0.05)
