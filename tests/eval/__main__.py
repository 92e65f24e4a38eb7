"""Evaluate memory retrieval: `python -m tests.eval FILE [--format locomo|beam|jsonl|dialogues]
[--as-installed]`."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from choir_common.wire.config import EmbeddingConfig, ModelConfig
from choir_common.wire.memory_search import ALL_ARMS, Arm
from choir_memory.settings import OFFLINE_MODEL
from tests.eval.corpus import Space
from tests.eval.dialogues import read_chat
from tests.eval.formats import FORMATS, detect_format
from tests.eval.harness import Harness, WrittenSpace, running_harness
from tests.eval.measures import Measures, mean
from tests.eval.reminders import ReminderMeasures
from tests.eval.variants import join_space, misspell_space

OUT = Path(".bench/eval.json")
DIALOGUES = Path("tests/eval/data/dialogues")
"""Generated dialogues; also the source of small talk for reminders."""
VECTORS_S = 3_600.0
RETRIEVAL_ARMS: tuple[Arm, ...] = ("text", "vector")
WEIGHING = tuple(arm for arm in ALL_ARMS if arm not in RETRIEVAL_ARMS)

TABLE_WIDTH = 140
"""Width of the table without a terminal; figures must not be truncated."""
LABEL = 32
"""Maximum length of a row's name; some data sets have categories with long names."""

console = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)


def ablations(arms: Sequence[Arm] = ()) -> Mapping[str, tuple[Arm, ...]]:
    """Return the subsets of arms to evaluate in addition to all arms, by name; or only those without each
    of `arms`."""
    without = {f"without {a}": tuple(b for b in ALL_ARMS if b != a) for a in arms or ALL_ARMS}
    if arms:
        return without
    alone: dict[str, tuple[Arm, ...]] = {f"only {arm}": (arm,) for arm in RETRIEVAL_ARMS}
    alone["only text and vector"] = RETRIEVAL_ARMS
    return alone | without


@dataclass
class EvaluationResult:
    """Results: with all arms per space, and with subsets of arms over all spaces."""

    written: Sequence[WrittenSpace]
    by_space: Mapping[str, Sequence[Measures]]
    by_arms: Mapping[str, Measures]
    wrote_s: float
    asked_ms: float
    promoted: int
    """Sessions in long-term memory."""
    reminders: Mapping[str, ReminderMeasures]
    """By space; empty unless measured."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures in the form of the results file."""
        every = [one for measured in self.by_space.values() for one in measured]
        return {
            **asdict(mean(every)),
            "questions": len(every),
            "units": sum(len(one.space.units) for one in self.written),
            "per_category": self._by_category(),
            "per_language": self._by_language(),
            "per_space": {
                name: {"questions": len(measured), **asdict(mean(measured))}
                for name, measured in self.by_space.items()
            },
            "arms": {name: asdict(measured) for name, measured in self.by_arms.items()},
            "write_and_embed_s": round(self.wrote_s, 1),
            "ask_ms": round(self.asked_ms, 1),
            "promoted_sessions": self.promoted,
            "reminders": {name: asdict(one) for name, one in self.reminders.items()},
        }

    def _by_category(self) -> dict[str, Any]:
        groups: dict[str, list[Measures]] = {}
        for one in self.written:
            measured = self.by_space[one.space.name]
            for question, result in zip(one.space.questions, measured, strict=True):
                groups.setdefault(question.category, []).append(result)
        return _means(groups)

    def _by_language(self) -> dict[str, Any]:
        groups: dict[str, list[Measures]] = {}
        for one in self.written:
            if one.space.language is not None:
                measured = self.by_space[one.space.name]
                groups.setdefault(one.space.language, []).extend(measured)
        return _means(groups)


def _means(groups: Mapping[str, Sequence[Measures]]) -> dict[str, Any]:
    return {
        name: {"questions": len(measured), **asdict(mean(measured))}
        for name, measured in sorted(groups.items())
    }


async def evaluate(
    harness: Harness,
    spaces: Sequence[Space],
    *,
    subsets: Mapping[str, tuple[Arm, ...]],
    as_installed: bool = False,
    reminders: bool = False,
) -> EvaluationResult:
    """Write all spaces, then run each space's questions.

    Also runs them with these `subsets` of the arms. With `as_installed`, first ends every session, which
    promotes all but the newest to long-term memory.
    """
    began = time.monotonic()
    promoted = 0
    with console.status("writing") as status:
        written = []
        for number, space in enumerate(spaces):
            status.update(f"writing {space.name}")
            written.append(await harness.write(number, space))
            if as_installed:
                promoted += await harness.end_sessions(written[-1])
        await harness.wait_for_vectors(status.update, VECTORS_S)
        wrote_s = time.monotonic() - began
        began = time.monotonic()
        by_space = {}
        for one in written:
            status.update(f"asking {one.space.name}")
            by_space[one.space.name] = await harness.measure(one)
        asked = sum(map(len, by_space.values()))
        asked_ms = (time.monotonic() - began) * 1000 / max(asked, 1)
        by_arms: dict[str, Measures] = {}
        for name, arms in subsets.items():
            status.update(f"asking {name}")
            found = [measured for one in written for measured in await harness.measure(one, arms)]
            by_arms[name] = mean(found)
        reminded = {}
        for one in written if reminders else ():
            status.update(f"reading reminders of {one.space.name}")
            reminded[one.space.name] = await harness.measure_reminders(one, read_chat(DIALOGUES))
    return EvaluationResult(written, by_space, by_arms, wrote_s, asked_ms, promoted, reminded)


def show(figures: Mapping[str, Any]) -> None:
    """Print the figures as a table."""
    names = [name for name in figures if name in Measures.__dataclass_fields__]
    figured = [Column(name, no_wrap=True, min_width=len(name)) for name in (*names, "questions")]
    table = Table(Column(no_wrap=True, overflow="ellipsis", max_width=LABEL), *figured)

    def add(label: str, row: Mapping[str, Any]) -> None:
        table.add_row(label, *(f"{row[n]:.3f}" for n in names), str(row.get("questions", "")))

    add("all arms", figures)
    titles = {"arms": "", "per_category": "category ", "per_language": "language ", "per_space": ""}
    for group, title in titles.items():
        table.add_section()
        for name, row in figures[group].items():
            add(f"{title}{name}", row)
    console.print(table)
    for name, one in figures["reminders"].items():
        shares = ", ".join(f"{measure} {share:.3f}" for measure, share in one.items())
        console.print(f"reminders of {name}: {shares}")
    console.print(
        f"{figures['units']} units written and embedded in {figures['write_and_embed_s']} s, "
        f"{figures['ask_ms']} ms a question"
    )


async def main(arguments: argparse.Namespace) -> None:
    """Evaluate one data set, print the table and write the results file."""
    path = Path(arguments.data)
    name = arguments.format or detect_format(path)
    spaces = FORMATS[name](path)
    if arguments.misspell:
        spaces = [misspell_space(space) for space in spaces]
    if arguments.join:
        spaces = [join_space(space) for space in spaces]
    console.print(f"{path.name} ({name}): {len(spaces)} spaces")
    embedding = _embedding(arguments)
    async with running_harness(_model(arguments), embedding) as harness:
        outcome = await evaluate(
            harness,
            spaces,
            subsets={} if arguments.quick else ablations(arguments.ablate),
            as_installed=arguments.as_installed,
            reminders=arguments.reminders,
        )
    figures = {
        "data": path.name,
        "format": name,
        "as_installed": arguments.as_installed,
        "misspelt": arguments.misspell,
        "joined": arguments.join,
        "embedding": OFFLINE_MODEL if embedding is None else embedding.model,
        **outcome.as_json(),
    }
    show(figures)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


def _model(arguments: argparse.Namespace) -> ModelConfig | None:
    if arguments.model is None:
        return None
    endpoint, name = arguments.model
    return ModelConfig(model=name, endpoint=endpoint, secret="model", temperature=None)


def _embedding(arguments: argparse.Namespace) -> EmbeddingConfig | None:
    if arguments.embedding is None:
        return None
    endpoint, name, dimensions = arguments.embedding
    return EmbeddingConfig(endpoint=endpoint, model=name, dimensions=int(dimensions))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a file (or BEAM's directory) with units and questions")
    parser.add_argument("--format", choices=FORMATS, help="default: what the file looks like")
    parser.add_argument("--quick", action="store_true", help="without the per-arm ablations")
    parser.add_argument(
        "--ablate", nargs="+", choices=ALL_ARMS, default=(), help="only the ablations of these arms"
    )
    parser.add_argument(
        "--as-installed",
        action="store_true",
        help="end every session first, so that all but the newest are in long-term memory",
    )
    parser.add_argument(
        "--reminders",
        action="store_true",
        help="also measure whether reminders contain the answer, and appear only if needed",
    )
    parser.add_argument(
        "--misspell", action="store_true", help="one misspelt word in each question"
    )
    parser.add_argument("--join", action="store_true", help="two questions in one text")
    parser.add_argument(
        "--model",
        nargs=2,
        metavar=("ENDPOINT", "NAME"),
        help="a language model that expands queries; its key is CHOIR_EVAL_MODEL_KEY",
    )
    parser.add_argument(
        "--embedding",
        nargs=3,
        metavar=("ENDPOINT", "NAME", "DIMENSIONS"),
        help="an embedding model of a provider; its key, if it needs one, is CHOIR_EVAL_EMBEDDING_KEY",
    )
    parser.add_argument("--out", type=Path, default=OUT)
    asyncio.run(main(parser.parse_args()))
