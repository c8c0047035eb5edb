# SPDX-License-Identifier: Apache-2.0
"""A job may read storage and write its output; it can delete nothing that is not its own, and reach nothing else."""

from __future__ import annotations

import json

from beerlab import Machine
from support import StorageUser

IMAGE_RUN = "docker run --rm --network bridge --add-host $(hostname):host-gateway"


def in_container(node: Machine, command: str, keytab: str = "batch") -> tuple[int, str]:
    """A shell command in a container of the job image, as a job would have it."""
    node.execute(f"install -m 0600 /etc/beer/keys/{keytab}.keytab /run/job.keytab")
    result = node.execute(
        f"{IMAGE_RUN} -v /run/job.keytab:/job.keytab:ro -e XrdSecSSSKT=/job.keytab beer-job:latest "
        f"/bin/sh -c '{command}'",
        check=False,
        timeout=240,
    )
    return result.status, result.stdout + result.stderr


def test_batch_cannot_delete_storage_data(node: Machine, storage: StorageUser) -> None:
    host = node.execute("hostname").stdout.strip()
    listed = storage.xrdfs("ls", "/data/01/store/real")
    victim = listed.splitlines()[0].strip()

    status, said = in_container(node, f"xrdfs root://{host} rm {victim}")
    assert status != 0, f"a job deleted {victim}: {said}"
    status, said = in_container(node, f"xrdfs root://{host} mv {victim} {victim}.gone")
    assert status != 0, f"a job renamed {victim}: {said}"
    status, said = in_container(node, f"xrdcp -f /etc/hostname root://{host}/{victim}")
    assert status != 0, f"a job overwrote {victim}: {said}"
    assert storage.xrdfs("stat", victim)

    status, said = in_container(
        node,
        f"xrdcp -s root://{host}/{victim} /tmp/x && "
        f"xrdcp -s /etc/hostname root://{host}//data/01/jobs/mine && echo fine",
    )
    assert status == 0, said
    assert "fine" in said


def test_without_a_key_nobody_gets_in(node: Machine) -> None:
    result = node.execute("XrdSecSSSKT=/nonexistent xrdfs root://localhost ls /data/01/store", check=False)
    assert result.status != 0
    assert "real" not in result.stdout


def test_containers_reach_only_the_xrootd_port(node: Machine) -> None:
    probe = (
        "import socket,sys\\n"
        "for port in (1094, 22, 9100, 9721, 9618):\\n"
        "    s = socket.socket(); s.settimeout(6)\\n"
        "    try: s.connect((sys.argv[1], port)); print(port, 1)\\n"
        "    except OSError: print(port, 0)\\n"
    )
    host = node.execute("hostname").stdout.strip()
    node.execute(f"printf '{probe}' > /run/probe.py")
    said = node.execute(
        f"{IMAGE_RUN} -v /run/probe.py:/probe.py:ro beer-job:latest python3 /probe.py {host}", timeout=240
    ).stdout
    reached = {line.split()[0] for line in said.splitlines() if line.endswith(" 1")}
    assert reached == {"1094"}, said


def test_metrics_listen_on_loopback_only(node: Machine) -> None:
    listening = node.execute("ss -Hltn 'sport = :9721'").stdout.split()
    assert "127.0.0.1:9721" in listening
    assert not any(address.startswith(("0.0.0.0:", "*:", "[::]:")) and "9721" in address for address in listening)


def test_the_admin_sees_who_uses_the_disks(node: Machine, storage: StorageUser) -> None:
    storage.start(rate=20, duration=120, disks=("/data/01",))
    [said] = json.loads(node.execute("beer storage streams --json").stdout)
    streams = [one for one in said["streams"] if one["path"].startswith("/data/01/store/load/")]
    assert len(streams) >= 16, said
    assert {(one["user"], one["class"], one["filesystem"], one["writer"]) for one in streams} == {
        ("storage", "storage", "/data/01", False)
    }
    table = node.execute("beer storage streams --most 5").stdout
    assert "storage" in table
    assert "/data/01/store/load/" in table
    storage.stop()
    [policy] = json.loads(node.execute("beer storage policy --json").stdout)
    scheduler = {one["path"]: one["scheduler"] for one in policy["filesystems"]}["/data/01"]
    device = node.execute("findmnt -nr -o MAJ:MIN -M /data/01").stdout.strip()
    assert f"[{scheduler}]" in node.execute(f"cat /sys/dev/block/{device}/queue/scheduler").stdout
    assert "/data/01" in node.execute("beer storage stat").stdout
    mode = node.execute("stat -c '%a %U %G' /run/beer/storage/beer.info").stdout.split()
    assert mode == ["660", "xrootd", "xrootd"]
