# SPDX-License-Identifier: Apache-2.0
"""Reads a latency segment, written from docs/formats/latency-segment.md alone: a second opinion on the C++ writer.

As a program: `segment.py FILE` prints a segment as JSON, `segment.py --dump FILE` one in hexdump form.
"""

import argparse
import ipaddress
import json
import struct
from pathlib import Path
from typing import Any

CLASSES = ("storage", "batch", "internal")
EVENTS = ("read", "write", "sync", "open", "meta")
KINDS = (
    *(f"{event}.{traffic}" for event in EVENTS for traffic in CLASSES),
    *("pacing.storage", "pacing.batch"),
    *("stall.storage", "stall.batch"),
)

HEADER = (  # name, offset, format
    ("version", 8, "I"),
    ("header_bytes", 12, "I"),
    ("total_bytes", 16, "Q"),
    ("generation", 24, "Q"),
    ("pid", 32, "I"),
    ("filesystems", 36, "I"),
    ("series_per_filesystem", 40, "I"),
    ("buckets", 44, "I"),
    ("series_stride", 48, "I"),
    ("slots", 52, "I"),
    ("clients", 56, "I"),
    ("filesystems_offset", 64, "Q"),
    ("changes_offset", 72, "Q"),
    ("series_offset", 80, "Q"),
    ("slots_offset", 88, "Q"),
    ("clients_offset", 96, "Q"),
    ("heartbeat_ns", 128, "Q"),
    ("slots_high", 136, "I"),
    ("clients_high", 140, "I"),
    ("slots_overflow", 144, "Q"),
    ("clients_overflow", 152, "Q"),
    ("internal_errors", 160, "Q"),
    ("shaping_sequence", 168, "Q"),
)


class FormatError(Exception):
    """The bytes are not a latency segment of version 1."""


def from_dump(text: str) -> bytes:
    """Bytes of the hexdump form: what is not in it is zero, the last line is the size."""
    lines = [line.split(":") for line in text.splitlines() if line != "*"]
    data = bytearray(int(lines[-1][0], 16))
    for offset, words in lines[:-1]:
        row = bytes.fromhex(words)
        data[int(offset, 16) : int(offset, 16) + len(row)] = row
    return bytes(data)


def _text(data: bytes) -> str:
    return data[: data.index(0)].decode()


def _header(data: bytes) -> dict[str, Any]:
    if len(data) < 4096 or data[:8] != b"BEERLAT\0":
        raise FormatError("no latency segment")
    header: dict[str, Any] = {"magic": _text(data[:8])}
    header.update({name: struct.unpack_from("<" + form, data, at)[0] for name, at, form in HEADER})
    header["instance"] = _text(data[192:256])
    wanted = {"version": 1, "header_bytes": 4096, "series_per_filesystem": 19, "buckets": 224, "series_stride": 960}
    for name, value in wanted.items():
        if header[name] != value:
            raise FormatError(f"{name} is {header[name]}, not {value}")
    count = header["filesystems"]
    sizes = (count * 256, (count * 19 * 4 + 63) // 64 * 64, count * 19 * 960, header["slots"] * 32)
    offset = 4096
    for name, size in zip(("filesystems", "changes", "series", "slots"), sizes, strict=True):
        if header[f"{name}_offset"] != offset:
            raise FormatError(f"{name}_offset is {header[f'{name}_offset']}, not {offset}")
        offset += size
    if header["clients_offset"] != offset or header["total_bytes"] != offset + header["clients"] * 64:
        raise FormatError("clients_offset or total_bytes is wrong")
    if header["total_bytes"] != len(data):
        raise FormatError(f"total_bytes is {header['total_bytes']}, the file has {len(data)}")
    return header


def _filesystem(data: bytes, at: int) -> dict[str, Any]:
    names = ("major", "minor", "open_readers", "open_writers", "flags")
    return dict(zip(names, struct.unpack_from("<5I", data, at), strict=True)) | {
        "path": _text(data[at + 64 : at + 256])
    }


def _series(data: bytes, at: int, change: int) -> dict[str, Any]:
    names = ("operations", "bytes", "sum_ns", "errors", "max_ns", "under", "over")
    record: dict[str, Any] = {"change": change}
    record |= dict(zip(names, struct.unpack_from("<5Q2I", data, at), strict=True))
    counts = struct.unpack_from("<224I", data, at + 64)
    record["buckets"] = {str(index): count for index, count in enumerate(counts) if count}
    return record


def read(data: bytes) -> dict[str, Any]:
    """Header, filesystem records, series with any operation, slots in use and client records in use."""
    header = _header(data)
    result: dict[str, Any] = {"header": header, "filesystems": [], "series": [], "slots": [], "clients": []}
    for number in range(header["filesystems"]):
        result["filesystems"].append(_filesystem(data, header["filesystems_offset"] + number * 256))
    for index in range(header["filesystems"] * 19):
        (change,) = struct.unpack_from("<I", data, header["changes_offset"] + index * 4)
        record = _series(data, header["series_offset"] + index * 960, change)
        if record["operations"] or change:
            name = {"index": index, "filesystem": index // 19, "kind": index % 19, "name": KINDS[index % 19]}
            result["series"].append(name | record)
    for index in range(header["slots_high"]):
        start, series, tid, size, client = struct.unpack_from("<QIIQI", data, header["slots_offset"] + index * 32)
        slot = {"start_ns": start, "series": series, "tid": tid, "bytes": size, "client": client}
        result["slots"].append({"index": index} | slot)
    for index in range(header["clients_high"]):
        at = header["clients_offset"] + index * 64
        address = ipaddress.IPv6Address(data[at : at + 16])
        read_, written, operations, last, used = struct.unpack_from("<4QI", data, at + 16)
        client = {"address": str(address.ipv4_mapped or address), "bytes_read": read_, "bytes_written": written}
        client |= {"operations": operations, "last_ns": last, "used": used}
        result["clients"].append({"index": index} | client)
    return result


def total(segment: dict[str, Any], name: str, field: str) -> int:
    """Sum of a field of the series called `name` ("read.storage", or "read" for all classes) over all filesystems."""
    chosen = [s for s in segment["series"] if s["name"] == name or s["name"].split(".")[0] == name]
    return sum(int(s[field]) for s in chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description="print a latency segment as JSON")
    parser.add_argument("--dump", action="store_true", help="the file is in hexdump form")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    data = from_dump(options.file.read_text()) if options.dump else options.file.read_bytes()
    print(json.dumps(read(data), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
