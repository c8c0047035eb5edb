# SPDX-License-Identifier: Apache-2.0
import multiprocessing
import os
import subprocess
import time

import pytest
from beerlab import store
from beerlab.process import run


def test_same_inputs_are_built_once(cache):
    built = []
    for _ in range(2):
        path = store.entry("things", "thing", {"a": 1}, lambda folder: (folder / "x").write_text(str(built.append(1))))
    assert built == [1]
    assert (path / "x").exists()
    assert path.parent == cache / "things"


def test_other_inputs_are_another_entry():
    one = store.entry("things", "thing", {"a": 1}, lambda _: None)
    two = store.entry("things", "thing", {"a": 2}, lambda _: None)
    assert one != two


def test_a_failed_build_leaves_nothing(cache):
    def fail(folder):
        (folder / "half").write_text("x")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.entry("things", "thing", {}, fail)
    assert list((cache / "things").iterdir()) == []


def test_what_a_killed_build_left_is_removed(cache):
    (cache / "things").mkdir(parents=True)
    (cache / "things" / "thing-0000000000000000.part").mkdir()
    store.entry("things", "thing", {}, lambda _: None)
    assert not list((cache / "things").glob("*.part"))


def test_only_the_last_used_entries_are_kept(cache):
    first = store.entry("things", "thing", 0, lambda _: None)
    second = store.entry("things", "thing", 1, lambda _: None)
    os.utime(second, (1, 1))
    for number in range(2, store.KEEP + 1):
        store.entry("things", "thing", number, lambda _: None)
    assert first.exists()
    assert not second.exists()
    assert len(list((cache / "things").iterdir())) == store.KEEP


def _slow(log):
    def build(folder):
        with log.open("a") as handle:
            handle.write("built\n")
        time.sleep(0.2)
        (folder / "x").touch()

    store.entry("things", "thing", {}, build)


def test_two_processes_build_once(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_slow, args=(log,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(10)
        assert process.exitcode == 0
    assert log.read_text() == "built\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    top = tmp_path / "checkout"
    (top / "part").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".gitignore").write_text("*.o\n")
    (top / "part" / "a.c").write_text("a")
    monkeypatch.setattr(store, "TOP", top)
    return top


def test_a_folder_is_what_git_would_track(checkout):
    (checkout / "part" / "a.o").write_text("ignored")
    (checkout / "part" / "gone.c").write_text("x")
    subprocess.run(["git", "-C", str(checkout), "add", "part/gone.c"], check=True)
    (checkout / "part" / "gone.c").unlink()
    assert [str(path) for path in store.files_of(checkout / "part")] == ["a.c"]


def test_a_folders_hash_changes_with_content_name_and_mode(checkout):
    part = checkout / "part"
    seen = {store.folder_digest(part)}
    (part / "a.o").write_text("ignored")
    assert store.folder_digest(part) in seen
    (part / "a.c").write_text("b")
    seen.add(store.folder_digest(part))
    (part / "a.c").chmod(0o755)
    seen.add(store.folder_digest(part))
    (part / "a.c").rename(part / "b.c")
    seen.add(store.folder_digest(part))
    (part / "link").symlink_to("b.c")
    seen.add(store.folder_digest(part))
    assert len(seen) == 5


def test_entries_made_twice_of_the_same_inputs_can_be_told_apart():
    path = store.entry("things", "thing", {}, lambda _: None)
    first = store.instance(path)
    store.remove_tree(path)
    assert store.instance(store.entry("things", "thing", {}, lambda _: None)) != first


def test_a_disk_that_qemu_has_open_is_in_use(tmp_path):
    disk = tmp_path / "disk.img"
    run(["qemu-img", "create", "-q", "-f", "raw", disk, "1M"])
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", disk, "-F", "raw", tmp_path / "overlay.qcow2"])
    assert not store.in_use(tmp_path)
    command = ["qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", "none", "-S", "-monitor", "stdio"]
    command += ["-drive", f"file={tmp_path}/overlay.qcow2,format=qcow2,if=none,id=d"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # its greeting comes when the drives are open
        assert store.in_use(tmp_path)
        process.stdin.write("quit\n")
        process.stdin.close()
        process.stdout.read()
    assert not store.in_use(tmp_path)
