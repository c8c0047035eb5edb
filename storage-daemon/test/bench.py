# SPDX-License-Identifier: Apache-2.0
"""What libXrdBeer costs: servers with and without it, one client, files in memory, alternating in one run.

Four servers run side by side: `beer`, its `twin`, `bare` (XRootD as it comes, with sendfile) and `copying` (bare, but
with `nosf`: what sendfile is worth). All are started anew for every block, since a process has luck or not with its
memory and threads for as long as it lives; a block gives one pair of numbers. Per case and other server it prints the
median over the blocks of the ratio beer/other, with its 95 % bootstrap interval, for the rate that the client sees and
for the CPU time of the server per unit of work; of the twin this is the machine's noise.
It shows what a client of a cached file sees; on disks the same microseconds vanish behind milliseconds. The files are
where the plug-in was built, on a real filesystem: of tmpfs the kernel does not tell what is in memory.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from server import Server
from XRootD import client
from XRootD.client.flags import OpenFlags

LARGE_BYTES = 256 << 20
STREAMS = 8
SMALL_READS = 1000
SMALL_BYTES = 4096
STATS = 1000
OPENS = 400
# Without keys: the benchmark is one process, and the XRootD client reads its keys once.
OPEN_HOUSE = {line: "# bench" for line in ("xrootd.seclib", "sec.protocol", "sec.protbind", "ofs.authorize", "acc.")}
WITHOUT = {line: "# bench" for line in ("ofs.osslib", "xrootd.fslib", "beer.")}
SERVERS: dict[str, dict[str, str]] = {
    "beer": {},
    "twin": {},
    "copying": WITHOUT | {"xrootd.async": "xrootd.async off nosf"},
    "bare": WITHOUT | {"xrootd.async": "# bench"},
}


def copy(pairs: list[tuple[str, str]], pages: bool) -> None:
    """All of them at once. Each URL that names another user is a connection of its own, and so another thread there."""
    client.EnvPutInt("CPUsePgWrtRd", int(pages))
    process = client.CopyProcess()
    for source, target in pairs:
        process.add_job(source, target, force=True)
    process.parallel(len(pairs))
    for status, what in ((process.prepare(), "prepare"), (process.run()[0], "run")):
        if not status.ok:
            raise RuntimeError(f"{what}: {status.message}")


def read(server: Server, streams: int, pages: bool) -> float:
    names = ["large"] if streams == 1 else [f"part-{number}" for number in range(streams)]
    copy([(server.url(f"01/store/{name}", user=f"s{n}"), "/dev/null") for n, name in enumerate(names)], pages)
    return LARGE_BYTES


def write(server: Server, streams: int) -> float:
    source = str(server.data / ("01/store/large" if streams == 1 else "01/store/part-0"))
    copy([(source, server.url(f"01/jobs/copy-{number}", user=f"s{number}")) for number in range(streams)], True)
    return LARGE_BYTES


def read_small(server: Server) -> float:
    order = random.Random(1)  # noqa: S311 (offsets, not secrets)
    with client.File() as file:
        status, _ = file.open(server.url("01/store/large"), OpenFlags.READ)
        for _ in range(SMALL_READS):
            status, _ = file.read(order.randrange(LARGE_BYTES // SMALL_BYTES) * SMALL_BYTES, SMALL_BYTES)
        if not status.ok:
            raise RuntimeError(status.message)
    return SMALL_READS


def open_one(server: Server) -> float:
    return open_and_close([server.url("01/store/large")] * OPENS)


def open_many(server: Server) -> float:
    return open_and_close([server.url(f"01/store/many/{number:03}") for number in range(OPENS)])


def open_and_close(urls: list[str]) -> float:
    for url in urls:
        file = client.File()
        for status, _ in (file.open(url, OpenFlags.READ), file.close()):
            if not status.ok:
                raise RuntimeError(status.message)
    return len(urls)


def stat(server: Server) -> float:
    files = client.FileSystem(f"root://127.0.0.1:{server.port}")
    for _ in range(STATS):
        status, _ = files.stat(server.path("01/store/large"))
    if not status.ok:
        raise RuntimeError(status.message)
    return STATS


# Function, unit, and pairs per block: short runs are cheap, and their noise needs them.
CASES: dict[str, tuple[Callable[[Server], float], str, int]] = {
    "read_pages": (partial(read, streams=1, pages=True), "B/s", 1),
    "read_plain": (partial(read, streams=1, pages=False), "B/s", 2),
    "write_pages": (partial(write, streams=1), "B/s", 1),
    "read_pages_many": (partial(read, streams=STREAMS, pages=True), "B/s", 1),
    "read_plain_many": (partial(read, streams=STREAMS, pages=False), "B/s", 2),
    "write_pages_many": (partial(write, streams=STREAMS), "B/s", 1),
    "read_4KiB_random": (read_small, "1/s", 6),
    "open": (open_one, "1/s", 6),
    "open_many_files": (open_many, "1/s", 6),
    "stat": (stat, "1/s", 6),
}


def make_shared(folder: Path, content: bytes) -> None:
    for name, size in (("large", LARGE_BYTES), ("part", LARGE_BYTES // STREAMS)):
        (folder / name).write_bytes(content[:size])
        (folder / name).chmod(0o644)


def furnish(server: Server, shared: Path) -> None:
    """The files of all cases, as links where the servers can share them: so they share their place in memory, too."""
    store = server.data / "01/store"
    (store / "large").hardlink_to(shared / "large")
    for number in range(STREAMS):
        (store / f"part-{number}").hardlink_to(shared / "part")
    (store / "many").mkdir()
    for number in range(OPENS):
        (store / f"many/{number:03}").touch()


def cpu_seconds(server: Server) -> float:
    """CPU time of all threads of a server, in ns resolution."""
    tasks = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def measure(case: Callable[[Server], float], server: Server) -> tuple[float, float]:
    """(units per second, server CPU seconds per unit)."""
    cpu, start = cpu_seconds(server), time.monotonic()
    units = case(server)
    return units / (time.monotonic() - start), (cpu_seconds(server) - cpu) / units


def interval(ratios: list[float]) -> dict[str, float]:
    """Median and its 95 % bootstrap interval."""
    order = random.Random(2)  # noqa: S311
    medians = sorted(statistics.median(order.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {
        "median": round(statistics.median(ratios), 4),
        "low": round(medians[50], 4),
        "high": round(medians[1949], 4),
    }


def compare(case: Callable[[Server], float], one: Server, other: Server, pairs: int, first: int) -> list[list[float]]:
    """Medians over the pairs of: rate of one, of the other, their ratio, ratio of CPU times."""
    found = []
    for number in range(first, first + pairs):
        if number % 2:
            a, b = measure(case, one), measure(case, other)
        else:
            b, a = measure(case, other), measure(case, one)
        found.append((a[0], b[0], a[0] / b[0], a[1] / b[1]))
    return [statistics.median(column) for column in zip(*found, strict=True)]


def block(number: int, cases: list[str], content: bytes) -> dict[tuple[str, str], list[float]]:
    """Every case against every other server, all of them fresh."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="beer-bench.", dir=Path(os.environ["BEER_PLUGIN"]).parent) as folder:
        Path(folder).chmod(0o755)
        make_shared(Path(folder), content)
        servers = {}
        for name, changes in SERVERS.items():
            server = servers[name] = Server(Path(folder) / name)
            server.write_config(OPEN_HOUSE | changes)
            furnish(server, Path(folder))
            server.start()
        try:
            for name in cases:
                case, _, pairs = CASES[name]
                for server in servers.values():
                    case(server)  # warm: connection, threads
                for label in ("bare", "copying", "twin"):
                    found[name, label] = compare(case, servers["beer"], servers[label], pairs, number)
        finally:
            for server in servers.values():
                server.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="the cost of libXrdBeer, as JSON")
    parser.add_argument("--pairs", type=int, default=10, help="blocks, each with fresh servers")
    parser.add_argument("--case", choices=CASES, action="append")
    options = parser.parse_args()
    names = options.case or list(CASES)
    content = os.urandom(LARGE_BYTES)
    blocks = []
    for number in range(options.pairs):
        print(f"block {number + 1} of {options.pairs}", file=sys.stderr)
        blocks.append(block(number, names, content))
    result: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "pairs": options.pairs}
    result["cases"] = {}
    for name in names:
        found: dict[str, Any] = {"unit": CASES[name][1]}
        for label in ("bare", "copying", "twin"):
            ours, other, ratios, cpu = zip(*(one[name, label] for one in blocks), strict=True)
            found["noise" if label == "twin" else label] = {
                "rate": [round(statistics.median(ours)), round(statistics.median(other))],
                "ratio": interval(list(ratios)),
                "cpu_ratio": interval(list(cpu)),
            }
        result["cases"][name] = found
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
