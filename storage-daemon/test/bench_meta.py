# SPDX-License-Identifier: Apache-2.0
"""A storm of metadata requests of one user, and what another user sees of it: alone, without and with limits, as JSON.

The storm: processes that ask for the same stat again and again, each with several requests under way, from the user
`batch`. The victim: one client of the user `storage`, 20 requests per second, timed from when each was due. All of them
share this machine with the server, which here is part of the harm, as it is on a server whose CPU is the limit.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from server import Server
from XRootD import client

RATE = 20.0
THREADS = 8
LIMITS = "beer.metarate user:batch Stat 50/s\nbeer.threads user:batch 4\n"


def ask_for_ever(endpoint: str, path: str) -> None:
    """One process of the storm."""

    def ask(number: int) -> None:
        files = client.FileSystem(f"root://storm{number}@{endpoint}")
        while True:
            files.stat(path)

    for number in range(THREADS):
        threading.Thread(target=ask, args=(number,), daemon=True).start()
    time.sleep(86400)


def ask_on_schedule(endpoint: str, path: str, seconds: float) -> list[float]:
    """Latencies in ms; a late request waits for nobody but counts from when it was due."""
    files = client.FileSystem(f"root://victim@{endpoint}")
    files.stat(path)
    start, found = time.monotonic(), []
    for number in range(int(seconds * RATE)):
        due = start + number / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        status, _ = files.stat(path)
        if not status.ok:
            raise RuntimeError(status.message)
        found.append((time.monotonic() - due) * 1e3)
    return found


def process(server: Server, role: str, user: str, *more: str) -> "subprocess.Popen[str]":
    words = [sys.executable, __file__, role, f"127.0.0.1:{server.port}", server.path("01/store/file"), *more]
    return subprocess.Popen(words, env=server.client_env(user), stdout=subprocess.PIPE, text=True)


def one(stormers: int, policy: str, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="beer-bench.") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server")
        (server.data / "01/store/file").write_bytes(b"x")
        server.policy_file.write_text(policy)
        server.start()
        storm = [process(server, "storm", "batch") for _ in range(stormers)]
        try:
            time.sleep(3)
            before = server.count("meta.storage")
            said, _ = process(server, "victim", "storage", str(seconds)).communicate(timeout=20 * seconds)
            served = server.count("meta.storage") - before
        finally:
            for client_process in storm:
                client_process.kill()
            server.stop(9)
    found = sorted(json.loads(said))
    return {
        "p50": round(statistics.median(found), 2),
        "p99": round(found[int(0.99 * len(found))], 2),
        "max": round(found[-1], 2),
        "stats_per_second": round(served / seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="a storm of metadata requests, with and without limits, as JSON")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=4, help="of the storm")
    options = parser.parse_args()
    cases = {"alone": (0, ""), "storm": (options.processes, ""), "storm, limited": (options.processes, LIMITS)}
    result = {name: one(stormers, policy, options.seconds) for name, (stormers, policy) in cases.items()}
    print(json.dumps({"unit": "ms", "processes": options.processes, "threads": THREADS, "cases": result}, indent=1))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("XRD_WORKERTHREADS", "4")
    if sys.argv[1:2] == ["storm"]:
        ask_for_ever(*sys.argv[2:])
    elif sys.argv[1:2] == ["victim"]:
        print(json.dumps(ask_on_schedule(sys.argv[2], sys.argv[3], float(sys.argv[4]))))
    else:
        raise SystemExit(main())
