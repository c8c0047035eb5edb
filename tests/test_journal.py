# SPDX-License-Identifier: Apache-2.0
"""A limited job that makes small files does not hold up who else writes to its filesystem.

Scratch is a folder of a filesystem that storage writes to, so both have one journal: whoever holds a handle of it while
he waits for a block keeps a commit waiting, and everybody waits for that. Victim: a writer of storage that makes a
file, writes it and flushes it. The job is left what the guard leaves who makes way at least, by the same property of
systemd; the guard itself is gone, so that the limit is the only thing that is tried. Memory is short: what the
filesystem looks up has to be read (the page cache is dropped every other second).

That it does is known (benchmarks/runs/2026-11-27-2-core says what waits for what), and expected of the last line alone.
"""

from __future__ import annotations

import json
import time

import pytest
from beerbench.batch import Batch
from beerbench.guard import Guard
from beerbench.neighbours import Neighbours
from beerbench.waiting import wait_until
from beerlab import Machine
from support import StorageUser, assert_undisturbed, disk_requests
from test_protection_disk import AGAIN

SECONDS = 50.0
HELD_UP = 3.0  # seconds for a file of 16 KiB: without anybody's limit the slowest took half of that
LIMITS = {"IOReadIOPSMax": 2, "IOWriteIOPSMax": 2, "IOReadBandwidthMax": 1 << 20, "IOWriteBandwidthMax": 1 << 20}

WRITER = """
import json, os, sys, time
folder, seconds = sys.argv[1], float(sys.argv[2])
os.makedirs(folder, exist_ok=True)
until, took = time.time() + seconds, []
while time.time() < until:
    began = time.time()
    file = os.open(f"{folder}/{len(took) % 20}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(file, bytes(16384))
    os.fsync(file)
    os.close(file)
    took.append(time.time() - began)
    time.sleep(0.2)
print(json.dumps(took))
"""


def files_of_storage(node: Machine, storage: StorageUser, neighbours: Neighbours) -> list[float]:
    """How long each of them took, while clients fill the disk."""
    began = time.time()
    node.execute("rm -f /run/took; cat > /run/writer.py", input=WRITER)
    drop = "while sleep 2; do echo 3 > /proc/sys/vm/drop_caches; done"
    node.execute(f"systemd-run --unit=short-of-memory sh -c '{drop}'")
    node.execute(
        "systemd-run --unit=writer --slice=storage.slice -p StandardOutput=file:/run/took "
        f"python3 /run/writer.py /data/01/store/writer {SECONDS:g}"
    )
    storage.saturate("/data/01", SECONDS, 2)
    said = "cat /run/took"
    wait_until(lambda: node.execute(said).stdout.strip(), 240, "storage has written its files", interval=2.0)
    node.execute("systemctl stop short-of-memory")
    assert_undisturbed(neighbours, began, time.time())
    took: list[float] = sorted(json.loads(node.execute(said).stdout))
    print(f"{len(took)} files, half of them within {took[len(took) // 2]:.2f} s, the slowest took {took[-1]:.2f} s")
    return took


@AGAIN
@pytest.mark.full
@pytest.mark.expects("blocked for more than")
def test_a_limited_job_holds_up_nobody_in_the_journal(
    node: Machine, batch: Batch, guard: Guard, storage: StorageUser, neighbours: Neighbours
) -> None:
    guard.wait_for_state("open", timeout=120)
    hog = batch.wait_until_ready(batch.submit("hog-files --threads 24 --seconds 600 --on-signal 1"), timeout=240)
    guard.take_away()
    disk = node.execute("findmnt -no SOURCE /data/01").stdout.strip()
    properties = " ".join(f"'{key}={disk} {value}'" for key, value in LIMITS.items())
    node.execute(f"systemctl set-property --runtime {hog.rsplit('/', 1)[1]} {properties}")
    batch.signal(hog)
    before = disk_requests(node, hog, "rios", "wios")
    took = files_of_storage(node, storage, neighbours)
    assert disk_requests(node, hog, "rios", "wios") > before + SECONDS, "the job did hardly anything"
    if took[-1] >= HELD_UP:
        pytest.xfail(f"a limited job held up the journal that it shares with storage for {took[-1]:.1f} s")
