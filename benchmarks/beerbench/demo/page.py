# SPDX-License-Identifier: Apache-2.0
"""The page of a demo run: one HTML file without external parts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import text
from . import palette, plots, table
from .findings import SLOW, Findings

CSS = Path(__file__).with_name("page.css")
STRONG = ("client requests, p99",)


def write(found: Findings, path: Path) -> None:
    path.write_text(render(found), encoding="utf-8")


def render(found: Findings) -> str:
    body = "\n".join(
        [
            _header(found),
            "<main>",
            _table(found),
            _figure(found),
            _reaction(found),
            _journal(found),
            _method(found),
            _limits(found),
            _facts(found),
            "</main>",
            f"<footer>Recorded {table.when(found)} at commit {_e(found.record.host.get('commit', 'unknown'))}. "
            "The numbers behind this page are in <code>record.json</code> and the files beside it; "
            "<code>python3 -m beerbench format</code> prints them again.</footer>",
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>BEER demo: storage under attack, protected</title>\n'
        f"<style>{palette.css()}\n{CSS.read_text()}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _header(found: Findings) -> str:
    alone, bad, good = (found.phases[name] for name in ("alone", "unguarded", "guarded"))
    reaction = found.reaction
    frozen = text.seconds(reaction.since_slow(reaction.frozen))
    cards = [
        ("p99 under attack, no guard", text.seconds(bad.p99), f"storage alone: {text.seconds(alone.p99)}"),
        ("p99 under attack, guarded", text.seconds(good.p99), "onset of the attack included"),
        ("first slow request to frozen", frozen, "as the kernel reports it"),
        ("delivered to clients, guarded", text.rate(good.delivered), f"no guard: {text.rate(bad.delivered)}"),
        ("idle CPU that batch got", text.percent(good.batch_share), f"no guard: {text.percent(bad.batch_share)}"),
    ]
    shown = "".join(
        f"<div><dt>{_e(title)}</dt><dd>{_e(value)}<small>{_e(note)}</small></dd></div>" for title, value, note in cards
    )
    return (
        '<header><p class="eyebrow">BEER, Batch on EOS Extra Resources: one disk server, measured</p>'
        f"<h1>{_e(table.verdict(found))}</h1>"
        '<p class="lead">A virtual disk server serves files with XRootD and runs physics jobs under HTCondor on its '
        "spare CPU. A hostile job then attacks the data disk, twice: with the guard and without it.</p>"
        f'<dl class="cards">{shown}</dl></header>'
    )


def _table(found: Findings) -> str:
    head, *rest = table.rows(found)
    rows = []
    for row in rest:
        kind = "sub" if row[0].startswith("  ") else "strong" if row[0] in STRONG else ""
        cells = "".join(f"<td>{_e(cell)}</td>" for cell in row[1:])
        rows.append(f'<tr class="{kind}"><th scope="row">{_e(row[0].strip())}</th>{cells}</tr>')
    titles = "".join(f'<th scope="col">{_e(cell)}</th>' for cell in head)
    return (
        '<h2>What the storage users got</h2><div class="scroll"><table>'
        "<caption>Requests of 16 KiB at random places, sent on schedule and timed from the moment they were due."
        f"</caption><thead><tr>{titles}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figure(found: Findings) -> str:
    return (
        '<h2>What happened</h2><figure role="group" aria-labelledby="picture">'
        f'<div class="scroll" role="img" aria-label="{_e(table.verdict(found))}">{plots.draw(found)}</div>'
        '<figcaption id="picture">Four measurements on one time axis; the shaded stretches are the phases of the '
        "table. Latency is on a logarithmic scale, of the requests that were due in each second; a triangle marks the "
        "end of a whole-file copy by xrdcp. CPU and disk are the kernel's own counts per slice, every two seconds."
        "</figcaption></figure>"
    )


def _reaction(found: Findings) -> str:
    seen = found.reaction
    if seen.decided is None:
        return "<h2>How fast the guard was</h2><p>The guard froze nothing in phase B of this run.</p>"
    if seen.first_slow is None:
        return "<h2>How fast the guard was</h2><p>It froze the jobs before any client request was slow.</p>"
    return (
        '<h2>How fast the guard was</h2><div class="scroll"><table>'
        f"<caption>Counted from the moment the first slow request was due: one that took more than {SLOW:g} times the "
        "p99 of storage alone, after the attack began.</caption>"
        f"<tbody>{_rows(table.reaction(found))}</tbody></table></div>"
        f"<p>Evidence: {_e(seen.evidence)}. The node's clock is known to {text.seconds(found.clock_error)} against the "
        "clients' clock, and times can be off by as much.</p>"
    )


def _journal(found: Findings) -> str:
    rows = table.decisions(found)
    if not rows:
        return ""
    body = "".join("<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f'<th scope="col">{title}</th>' for title in ("time", "state", "action", "reason"))
    return (
        '<h2>What the guard wrote down</h2><div class="scroll"><table class="log">'
        "<caption>Its journal from the start of phase B; the same that <code>beer why</code> reads.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<details><summary>beer why, on the node</summary><pre>{_e(str(found.data['why']).strip())}</pre></details>"
    )


def _method(found: Findings) -> str:
    data, plan = found.data, found.record.parameters
    cap = text.rate(plan["copy_rate"])
    items = [
        f"The disk of {data['disk']} is throttled by the emulator to {data['iops']:.0f} requests/s; the users ask for "
        f"{100 * plan['load']:.0f} % of that, {data['rate']:.0f} requests/s of 16 KiB, at random times (Poisson); "
        f"one more copies whole files with xrdcp, at {cap} at most, with pauses, and none from the page cache.",
        "The client runs outside the node and does not wait for answers: a request that is late is late from the "
        "moment it was due, what was never answered counts with its age, and what failed as infinitely late.",
        f"The hostile job reads and writes its scratch with direct I/O from {plan['hog_threads']} threads; scratch "
        f"lies on the data disk. Its container waits from before the users come; it attacks {plan['lead']:g} s into "
        f"the phases B and C, for {plan['attack']:g} s each, so that the onset is part of their numbers.",
        "For phase C the guard is killed and nothing takes its place; the static limits of the slices remain.",
        table.physics(found),
        "Idle CPU that batch got: CPU time of the jobs over that plus the idle time of the CPUs that batch may use.",
    ]
    return f"<h2>How it was measured</h2><ul>{_list(items)}</ul>"


def _limits(found: Findings) -> str:
    slower = 1 / float(found.data["speed"])
    items = [
        "One run of each phase, not a series: for medians and bounds run <code>beerbench run isolation</code>.",
        "A throttled virtual disk has a queue but no head: real disks get worse under mixed load, and earlier.",
        "One attack (direct I/O on the data disk). Memory, fork, CPU and network hogs, and attacks through XRootD, are "
        "not in this run.",
        "At first all jobs are frozen: until it is known which one is guilty the innocent one stands still too. The "
        "CPU that this costs is in the table.",
    ]
    if slower > 2:
        items.insert(
            1,
            f"The node's CPU is emulated and about {slower:.0f} times slower than this machine's: reaction times and "
            "the CPU of XRootD and the guard are worse than on real hardware, and latencies carry its noise.",
        )
    return f"<h2>What this does not show</h2><ul>{_list(items)}</ul>"


def _facts(found: Findings) -> str:
    host = found.record.host
    flat = {**{key: value for key, value in host.items() if not isinstance(value, dict)}}
    flat |= {f"lab: {key}": value for key, value in host.get("lab", {}).items()}
    flat |= {f"node: {key}": value for key, value in host.get("node", {}).items()}
    shown = "".join(f"<dt>{_e(key.replace('_', ' '))}</dt><dd>{_e(_join(value))}</dd>" for key, value in flat.items())
    return f'<h2>Where</h2><details><summary>Host, emulator and node</summary><dl class="facts">{shown}</dl></details>'


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(
        f'<tr><th scope="row">{_e(row[0])}</th>' + "".join(f"<td>{_e(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )


def _list(items: Iterable[str]) -> str:
    return "".join(f"<li>{item}</li>" for item in items)


def _join(value: Any) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _e(value: object) -> str:
    return html.escape(str(value))
