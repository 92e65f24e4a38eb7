"""Run the memory benchmark: `python -m tests.bench.memory [--sizes 1000,10000] [--agents N] [--full]`."""

import argparse
import asyncio
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.memory.environment import bench_environment
from tests.bench.memory.figures import MemoryBenchResults
from tests.bench.memory.many_agents import measure_many_agents
from tests.bench.memory.schemas import measure_schemas
from tests.bench.memory.spaces import measure_space
from tests.bench.memory.writing import measure_ingest

OUT = Path(".bench/memory.json")
SIZES = "1000,10000,100000"
FULL_SIZES = "1000,10000,100000,1000000"


async def measure(options: argparse.Namespace, results: MemoryBenchResults) -> None:
    """Fill `results`, and write them after each step, so that an interrupted run is not lost."""
    async with bench_environment(options.keep) as stage:

        def note() -> None:
            results.service_mb, results.postgres_mb = stage.service_mb(), stage.postgres_mb()
            results.write(options.out)

        if options.schemas:
            results.schemas = await measure_schemas(stage, options.schemas)
            note()
        if options.ingest:
            results.ingest = await measure_ingest(stage, options.ingest)
            note()
        for size in options.sizes:
            results.spaces.append(await measure_space(stage, size, options.questions))
            note()
        if options.agents:
            results.crowd = await measure_many_agents(stage, options.agents, options.searches)
        note()


def show(results: MemoryBenchResults) -> None:
    """Print the figures as tables."""
    console = Console()
    single = [("schemas", results.schemas), ("ingest", results.ingest), ("crowd", results.crowd)]
    rows: list[tuple[str, list[dict[str, Any]]]] = [
        (title, [asdict(figures)]) for title, figures in single if figures is not None
    ]
    rows.append(("search in one space", [asdict(figures) for figures in results.spaces]))
    for title, figures in rows:
        table = Table(title, *("" for _ in figures))
        for name in figures[0] if figures else ():
            table.add_row(name, *(f"{each[name]:g}" for each in figures))
        console.print(table)
    console.print(f"service {results.service_mb} MB, postgres {results.postgres_mb} MB")


def main() -> None:
    """Parse the options, run the measurements and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sizes", default=None, help=f"documents of the spaces: {SIZES}")
    parser.add_argument("--agents", type=int, default=None, help="spaces of 1,000 (50)")
    parser.add_argument("--searches", type=int, default=2_000, help="in all of those")
    parser.add_argument("--questions", type=int, default=300, help="in each space")
    parser.add_argument("--ingest", type=int, default=3_000, help="documents to write")
    parser.add_argument("--schemas", type=int, default=100, help="empty spaces to make")
    parser.add_argument("--full", action="store_true", help="a million, and 1,000 spaces")
    parser.add_argument("--keep", type=Path, default=None, help="where Postgres' data stay")
    options = parser.parse_args()
    sizes = options.sizes if options.sizes is not None else FULL_SIZES if options.full else SIZES
    options.sizes = [int(size) for size in sizes.split(",") if size]
    if options.agents is None:
        options.agents = 1_000 if options.full else 50
    results, start = MemoryBenchResults(), time.monotonic()
    asyncio.run(measure(options, results))
    show(results)
    print(f"{options.out}, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
