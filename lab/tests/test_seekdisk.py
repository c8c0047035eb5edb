# SPDX-License-Identifier: Apache-2.0
"""The disk with a head: its times, and what a real QEMU block layer reads through it."""

import fcntl
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from beerlab import seekdisk
from beerlab.seekdisk import Head

MIB = 1 << 20
CONTENT = random.Random(1).randbytes(4 * MIB)  # noqa: S311 (no secret)


def test_a_seek_costs_and_what_follows_does_not():
    head = Head(seek_seconds=0.008, bytes_per_second=100 * MIB)
    assert head.serve(0, MIB) == pytest.approx(0.01)
    assert head.serve(MIB, MIB) == pytest.approx(0.01)
    assert head.serve(500 * MIB, MIB) == pytest.approx(0.018)
    assert head.serve(0, MIB) == pytest.approx(0.018), "back is a seek however near it is"


def test_a_short_way_ahead_is_waited_for():
    head = Head(seek_seconds=0.008, bytes_per_second=100e6)
    assert head.serve(100_000, 0) == pytest.approx(0.001)
    assert head.serve(100_000_000, 0) == pytest.approx(0.008)


def test_a_sweep_goes_up_from_the_head_and_then_begins_anew():
    assert Head(0.008, 1e8, place=50).sweep([10, 70, 50, 0, 60]) == [50, 60, 70, 0, 10]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    path.write_bytes(CONTENT)
    return path


@contextmanager
def served(image, seek_ms, rate):
    socket_path = image.with_name("s")
    words = [sys.executable, seekdisk.__file__, "--image", image, "--socket", socket_path]
    with subprocess.Popen([*words, "--seek-ms", str(seek_ms), "--rate", str(rate)]) as process:
        try:
            deadline = time.monotonic() + 10
            while not socket_path.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield f"nbd+unix:///?socket={socket_path}", process
        finally:
            process.kill()


def qemu_io(url, *commands):
    words = ["qemu-io", "-r", "-f", "raw", *(word for command in commands for word in ("-c", command)), url]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_qemu_reads_what_is_in_the_image_and_the_server_ends_with_it(image):
    with served(image, 0, 1e9) as (url, process):
        said = subprocess.run(
            ["qemu-img", "compare", "-f", "raw", "-F", "raw", image, url], check=True, capture_output=True
        )
        assert b"identical" in said.stdout
        assert process.wait(10) == 0


def test_time_is_that_of_the_seeks(image):
    reads = [f"read -q {place}k 4k" for place in range(0, 80, 4)]
    took = dict.fromkeys(("ahead", "back"), 1e9)
    # The least of three: others use this machine too.
    for name, order in (("ahead", reads), ("back", reads[::-1])) * 3:
        with served(image, 50, 1e9) as (url, _):
            began = time.monotonic()
            qemu_io(url, *order)
            took[name] = min(took[name], time.monotonic() - began)
    # 20 seeks of 50 ms against none; opening reads a few places in both.
    assert took["back"] > 0.95
    assert took["back"] - took["ahead"] > 0.6


def test_a_queue_is_answered_in_one_sweep(image):
    order = [1000, 200, 3000, 600, 2400, 1600, 3600, 1200]
    with served(image, 20, 1e9) as (url, _):
        said = qemu_io(url, "aio_read 0 4k", *(f"aio_read {place}k 4k" for place in order), "aio_flush")
    done = [int(line.rsplit(" ", 1)[1]) >> 10 for line in said.splitlines() if line.startswith("read ")]
    assert sorted(done[1:]) == sorted(order)
    assert sum(a > b for a, b in pairwise(done)) <= 2, "no more than the sweep that had begun"


def test_an_image_that_is_served_counts_as_in_use(image):
    with served(image, 0, 1e9), image.open("r+b") as handle, pytest.raises(OSError, match=r"."):
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_writes_are_refused(image):
    with served(image, 0, 1e9) as (url, _):
        done = subprocess.run(
            ["qemu-io", "-f", "raw", "-c", "write 0 4k", url], capture_output=True, text=True, check=False
        )
    assert done.returncode != 0
    assert image.read_bytes() == CONTENT
