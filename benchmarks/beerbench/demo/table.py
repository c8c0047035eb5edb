# SPDX-License-Identifier: Apache-2.0
"""The table of the demo, on the terminal and on the page."""

from __future__ import annotations

import time

from .. import text
from ..neighbours import DISTURBED
from .findings import LETTERS, SLOW, TITLES, Findings


def rows(found: Findings) -> list[list[str]]:
    """First row: titles; first column: what is shown."""
    phases = [found.phases[name] for name in TITLES]
    table = [["", *(f"{LETTERS[name]}  {title}" for name, title in TITLES.items())]]
    table.append(["client requests, p50", *(text.seconds(phase.p50) for phase in phases)])
    table.append(["client requests, p99", *(text.seconds(phase.p99) for phase in phases)])
    table.append(["delivered to clients", *(text.rate(phase.delivered) for phase in phases)])
    table.append(["  asked for", *(text.rate(phase.offered) for phase in phases)])
    cap = text.rate(found.record.parameters["copy_rate"])
    table.append([f"whole files by xrdcp (at most {cap})", *(text.rate(phase.copy_speed) for phase in phases)])
    table.append(["CPU that batch got", *(text.cores(phase.batch_cpu) for phase in phases)])
    table.append(["  of the idle CPU it may use", *(text.percent(phase.batch_share) for phase in phases)])
    table.append(["disk requests of batch", *(text.percent(phase.batch_disk) for phase in phases)])
    table.append(["CPU of this machine that its neighbours took", *(text.percent(phase.taken) for phase in phases)])
    lost = [str(phase.failed) for phase in phases]
    if any(phase.failed for phase in phases):
        table.append(["requests that failed", *lost])
    return table


def reaction(found: Findings) -> list[list[str]]:
    """How fast the guard was, in phase B, each counted from the first slow request."""
    seen = found.reaction
    return [
        ["decision and freeze write, in one tick", text.seconds(seen.since_slow(seen.decided))],
        ["kernel reports the hostile job frozen", text.seconds(seen.since_slow(seen.frozen))],
        ["last disk request of that job", text.seconds(seen.since_slow(seen.last_io))],
    ]


def physics(found: Findings) -> str:
    """What the innocent job did."""
    job = found.data["physics"]
    when = "ran through both attacks" if job["through"] else "was over before the second attack was"
    made = f"{job['report'].get('events', '?')} collisions with Pythia 8"
    return f"The physics job {when}: {made}, stored with xrdcp. It fails on any wrong number, and did not."


def decisions(found: Findings) -> list[list[str]]:
    """The guard's journal from phase B to the end."""
    start = found.data["phases"]["guarded"][0]
    return [
        [
            f"{item.time - found.start:.1f} s",
            item.before if item.before == item.after else f"{item.before} to {item.after}",
            item.action + (" (precaution)" if item.precaution else ""),
            item.cause.replace("_", " "),
        ]
        for item in found.decisions.between(start, found.end).items
    ]


def verdict(found: Findings) -> str:
    """One sentence, true of this run whatever it shows."""
    alone, bad, good = (found.phases[name] for name in ("alone", "unguarded", "guarded"))
    first = (
        f"Under the same attack the p99 of storage clients was {text.seconds(bad.p99)} without the guard "
        f"and {text.seconds(good.p99)} with it; storage alone had {text.seconds(alone.p99)}."
    )
    if good.p99 >= bad.p99:
        first += " In this run the guard did not protect storage."
    taken = [phase.taken for phase in found.phases.values() if phase.taken > DISTURBED]
    if taken:
        first += (
            f" Neighbours of this machine took up to {text.percent(max(taken))} of its CPU meanwhile, which makes "
            "the storage of an emulated node slow by itself: run it again when the machine is calm."
        )
    return first


def terminal(found: Findings) -> str:
    parts = [text.table(rows(found)), ""]
    seen = found.reaction
    if seen.decided is None:
        parts.append("The guard froze nothing in phase B.")
    elif seen.first_slow is None:
        slow = f"{text.seconds(SLOW * found.phases['alone'].p99)} ({SLOW:g} times the p99 of A)"
        parts.append(f"After the attack of phase B began no client request took over {slow}.")
    else:
        parts += ["From the first slow request of a client to", text.table(reaction(found), header=False)]
        parts.append(f"(node's clock known to {text.seconds(found.clock_error)}; evidence: {seen.evidence})")
    parts += ["", physics(found)]
    why = str(found.data["why"]).strip()
    if why:
        behind = text.seconds(-float(found.data["clock"]["offset"]))
        parts += ["", f"beer why (the node's clock is {behind} behind)"]
        parts += [f"  {line}" for line in why.splitlines()[-12:]]
    parts += ["", verdict(found)]
    return "\n".join(parts)


def when(found: Findings) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.start))
