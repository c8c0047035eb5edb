# SPDX-License-Identifier: Apache-2.0
"""A session on a fresh node of the lab."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .session import Session

if TYPE_CHECKING:
    from beerlab import NodeSpec, Preparation


@contextmanager
def lab_session(
    layout: Literal["scratch-apart", "scratch-on-data"],
    out: Path,
    disks: list[str],
    *,
    keep: bool = False,
    spec: NodeSpec | None = None,
    preparation: Preparation | None = None,
) -> Iterator[Session]:
    """The node ends with the block unless `keep`; after a failure its logs are in out/logs."""
    from beerlab import client_root, ready_node

    node = ready_node(layout, spec=spec, detached=keep, preparation=preparation)
    try:
        session = Session(node, client_root(), out, disks)
        try:
            yield session
        finally:
            session.close()
        if keep:
            session.guard.restore()
    except BaseException:
        node.save_logs(out / "logs")
        print(f"logs of the node: {out / 'logs'}", file=sys.stderr)
        raise
    finally:
        if keep:
            print("the node stays up. Log in:  python3 -m beerlab shell   End it:  make down", file=sys.stderr)
        else:
            node.discard()
