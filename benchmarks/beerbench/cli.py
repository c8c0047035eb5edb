# SPDX-License-Identifier: Apache-2.0
"""python3 -m beerbench list | run NAME | study RECORD | format RECORD | keep RECORD | demo

Exit status: 0 done; 1 it could not be measured, or the demo showed no protection; 2 wrong command line.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import bench, host, plot
from .errors import BenchmarkError
from .record import FILE, Record, RecordError, plain

OUT = Path("out")
RUNS = Path(__file__).resolve().parent.parent / "runs"


def run_one(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Record, study, print."""
    benchmark = bench.load(name)
    record = benchmark.record(options, folder)
    results = benchmark.study(record)
    print(heading(record))
    print(benchmark.show(record, results))
    print(f"\nrecord: {folder / FILE}")
    if picture := draw(benchmark, results, folder):
        print(f"plot:   {picture}")
    for page in folder.glob("*.html"):
        print(f"page:   {page}")
    return results


def draw(benchmark: bench.Benchmark, results: dict[str, Any], folder: Path) -> Path | None:
    """Not every benchmark has a picture."""
    make = getattr(benchmark, "draw", None)
    if make is None:
        return None
    plot.save(make(results), folder / "plot.svg")
    return folder / "plot.svg"


def heading(record: Record) -> str:
    lines = [f"\n{record.benchmark}, {record.started}, {host.host_kind(record.host)}"]
    lines += [f"  missing on this machine: {text}" for text in record.missing]
    return "\n".join([*lines, ""])


def run(options: argparse.Namespace) -> int:
    if options.name != "all":
        run_one(options.name, options, options.out or stamped(options.name))
        return 0
    failed = []
    for name in bench.NAMES:
        try:
            run_one(name, defaults(name), stamped(name))
        except BenchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def demo(options: argparse.Namespace) -> int:
    results = run_one("demo", options, options.out or OUT / "demo")
    return 0 if results["protected"] else 1


def study(options: argparse.Namespace) -> int:
    record = Record.load(options.record)
    print(json.dumps(plain(bench.load(record.benchmark).study(record)), indent=1))
    return 0


def show(options: argparse.Namespace) -> int:
    record = Record.load(options.record)
    benchmark = bench.load(record.benchmark)
    results = benchmark.study(record)
    print(heading(record))
    print(benchmark.show(record, results))
    if picture := draw(benchmark, results, record.folder):
        print(f"\nplot: {picture}")
    return 0


def keep(options: argparse.Namespace) -> int:
    """Into runs/<date>-<host kind>/<benchmark>/: the record, its results and its text, without bulky samples."""
    record = Record.load(options.record)
    benchmark = bench.load(record.benchmark)
    results = benchmark.study(record)
    folder = RUNS / f"{record.started[:10]}-{host.host_kind(record.host)}" / record.benchmark
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(plain(results), indent=1) + "\n")
    (folder / "results.txt").write_text(f"{heading(record).strip()}\n\n{benchmark.show(record, results)}\n")
    draw(benchmark, results, folder)
    for name in ("record.json", "report.html"):
        if (record.folder / name).exists():
            shutil.copyfile(record.folder / name, folder / name)
    print(folder)
    return 0


def list_all(_: argparse.Namespace) -> int:
    width = max(len(name) for name in bench.NAMES)
    for name in bench.NAMES:
        print(f"{name.ljust(width)}  {bench.about(name)}")
    return 0


def stamped(name: str) -> Path:
    return OUT / name / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


def defaults(name: str) -> argparse.Namespace:
    """The options of a benchmark when none is given."""
    parser = argparse.ArgumentParser()
    bench.load(name).arguments(parser)
    return parser.parse_args([])


def lab_errors() -> tuple[type[Exception], ...]:
    """What the lab raises, if it is here: on a real node there is none."""
    try:
        from beerlab import LabError
    except ImportError:
        return ()
    return (LabError,)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="beerbench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("list", help="the benchmarks, a line each").set_defaults(call=list_all)
    one = commands.add_parser("run", help="measure, study and print")
    names = one.add_subparsers(dest="name", required=True, metavar="NAME")
    names.add_parser("all", help="all of them with their defaults")
    for name in bench.NAMES:
        benchmark = bench.load(name)
        sub = names.add_parser(
            name,
            help=bench.about(name),
            description=benchmark.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--out", type=Path, help=f"folder for the record (default: {OUT}/{name}/<time>)")
        benchmark.arguments(sub)
    one.set_defaults(call=run)
    one = commands.add_parser("demo", help="the demo, with its page: what `make demo` runs")
    one.add_argument("--out", type=Path, help=f"folder for record and page (default: {OUT}/demo)")
    bench.load("demo").arguments(one)
    one.set_defaults(call=demo)
    for name, call, text in (
        ("study", study, "results of a record, as JSON"),
        ("format", show, "results of a record, as text"),
        ("keep", keep, "put a record and its results under benchmarks/runs/"),
    ):
        one = commands.add_parser(name, help=text)
        one.add_argument("record", type=Path, help="record.json, or the folder that it lies in")
        one.set_defaults(call=call)
    return top


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    expected: tuple[type[Exception], ...] = (BenchmarkError, RecordError, FileNotFoundError, *lab_errors())
    try:
        return int(options.call(options))
    except expected as error:
        print(f"beerbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
