# SPDX-License-Identifier: Apache-2.0
"""A storm of metadata requests of one user, and what another user sees of it: alone, without and with limits, as JSON.

The storm: processes that list the same directory with the stat of each entry (`ls -l`) again and again, each with
several requests under way, from the user `batch`. The victim: one client of the user `storage`, 20 requests per second,
timed from when each was due. All of them share this machine with the server, which here is part of the harm, as it is
on a server whose CPU is the limit. Every case has a server of its own, and the cases take turns for as many rounds as
are asked for.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from info import ask
from server import Server
from XRootD import client
from XRootD.client.flags import DirListFlags

RATE = 20.0
THREADS = 8
ENTRIES = 1000
RATE_LIMIT = "beer.metarate user:batch OpenDir 5/s\n"
THREAD_LIMIT = "beer.threads user:batch 1\n"
# Does the storm run, and under which policy.
CASES: dict[str, tuple[bool, str]] = {
    "alone": (False, ""),
    "no limit": (True, ""),
    "thread limit": (True, THREAD_LIMIT),
    "rate limit": (True, RATE_LIMIT),
    "both": (True, THREAD_LIMIT + RATE_LIMIT),
}
# Seconds in which the storm gets going; then it is waited for until it meets its limit, and is owed nothing more.
STARTING = 3.0


def ask_for_ever(endpoint: str, path: str) -> None:
    """One process of the storm."""

    def list_for_ever(number: int) -> None:
        files = client.FileSystem(f"root://storm{number}@{endpoint}")
        while True:
            status, _ = files.dirlist(path, DirListFlags.STAT)
            if not status.ok and "expired" not in status.message:  # it was told to come back for too long
                print(status.message, file=sys.stderr)
                os._exit(1)  # of all threads: somebody looks whether the process has ended

    for number in range(THREADS):
        threading.Thread(target=list_for_ever, args=(number,), daemon=True).start()
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


def process(server: Server, role: str, user: str, name: str, *more: str) -> "subprocess.Popen[str]":
    words = [sys.executable, __file__, role, f"127.0.0.1:{server.port}", server.path(name), *more]
    return subprocess.Popen(words, env=server.client_env(user), stdout=subprocess.PIPE, text=True)


def listings(server: Server) -> int:
    lines = ask(server.info_socket, "stat")["metadata"]
    return next(int(line["total"]) for line in lines if line["name"] == "OpenDir")


def one(stormers: int, policy: str, seconds: float) -> dict[str, Any]:
    """Latencies of the victim in ms, and what the server did for the storm meanwhile."""
    with tempfile.TemporaryDirectory(prefix="beer-bench.") as folder:
        Path(folder).chmod(0o755)
        server = Server(Path(folder) / "server")
        for number in range(ENTRIES):
            (server.data / f"01/store/{number}").write_bytes(b"x")
        server.policy_file.write_text(policy)
        server.start()
        storm = [process(server, "storm", "batch", "01/store") for _ in range(stormers)]
        try:
            time.sleep(STARTING)
            deadline = time.monotonic() + 60
            while policy and not server.count("stall.storage") and time.monotonic() < deadline:
                time.sleep(0.1)
            if policy and time.monotonic() >= deadline:
                raise RuntimeError("the storm did not meet its limit within 60 s")
            served, began = listings(server), time.monotonic()
            victim = process(server, "victim", "storage", "01/store/0", str(seconds))
            said, _ = victim.communicate(timeout=60 + 20 * seconds)
            took = time.monotonic() - began
            served, stalls = listings(server) - served, server.count("stall.storage")
            dead = [one.returncode for one in storm if one.poll() is not None]
            if dead:
                raise RuntimeError(f"{len(dead)} processes of the storm ended by themselves: {dead}")
        finally:
            for client_process in storm:
                client_process.kill()
            server.stop(9)
    latencies = sorted(json.loads(said))
    return {
        "latencies_ms": [round(value, 2) for value in latencies],
        "storm_per_second": round(served / took, 1),
        # From the start of the storm on: who was told then to come back may do so after the end.
        "stalled": stalls,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="a storm of metadata requests, with and without limits, as JSON")
    parser.add_argument("--seconds", type=float, default=20, help="of each case in each round")
    parser.add_argument("--rounds", type=int, default=1, help="of all cases")
    parser.add_argument("--processes", type=int, default=4, help="of the storm")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for number in range(options.rounds):
        for name, (stormy, policy) in CASES.items():
            print(f"round {number + 1} of {options.rounds}, {name}", file=sys.stderr)
            rounds[name].append(one(options.processes if stormy else 0, policy, options.seconds))
    storm = {"processes": options.processes, "requests_at_once": options.processes * THREADS}
    policies = {name: policy.split("\n")[:-1] for name, (_, policy) in CASES.items()}
    print(json.dumps({"unit": "ms", "victim_rate": RATE, **storm, "policies": policies, "cases": rounds}))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("XRD_WORKERTHREADS", "4")
    if sys.argv[1:2] == ["storm"]:
        ask_for_ever(*sys.argv[2:])
    elif sys.argv[1:2] == ["victim"]:
        print(json.dumps(ask_on_schedule(sys.argv[2], sys.argv[3], float(sys.argv[4]))))
    else:
        raise SystemExit(main())
