# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of the plug-in's shaping set up on a node of the lab: policies, and disks with a head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .lab import Node

if TYPE_CHECKING:
    from beerlab import NodeSpec

CONFIG, POLICY = "/etc/xrootd/xrootd-beer.cfg", "/etc/xrootd/beer-policy.cfg"
# An HDD; a node's disk takes longer for both by the same factor, since an emulated CPU could not serve it.
HDD_BYTES_PER_SECOND, HDD_SEEK_MS = 190_000_000, 8.0


def set_policy(node: Node, text: str) -> None:
    """By rename, as puppet does: the server never sees half a file. It looks once a second."""
    node.execute(f"cat > {POLICY}.new && mv {POLICY}.new {POLICY}", input=text)


def restart(node: Node) -> None:
    node.execute("systemctl restart xrootd@beer", timeout=120)
    node.execute("until ss -Hltn sport = :1094 | grep -q .; do sleep 0.2; done", timeout=120)


def stall_the_refused(node: Node, seconds: int) -> None:
    """Who is refused for overload comes back after so long. Counts from the next start of the server."""
    line = f"xrootd.fsoverload stall {seconds}"
    node.execute(f"sed -i 's/^xrootd.fsoverload .*/{line}/' {CONFIG} && grep -q '^{line}$' {CONFIG}")


def with_heads(slower: float, labels: list[str]) -> NodeSpec:
    """A node whose data disks of these labels have a head."""
    from beerlab import HeadSpec, NodeSpec

    plain = NodeSpec()
    head = HeadSpec(HDD_SEEK_MS * slower, int(HDD_BYTES_PER_SECOND / slower))
    return replace(plain, disks=tuple(replace(one, head=head) if one.label in labels else one for one in plain.disks))


def head_in_words(slower: float) -> str:
    rate, seek = HDD_BYTES_PER_SECOND / slower / 1e6, HDD_SEEK_MS * slower
    return f"{rate:.1f} MB/s, seeks of {seek:.0f} ms ({slower:g} times slower than 190 MB/s and 8 ms)"
