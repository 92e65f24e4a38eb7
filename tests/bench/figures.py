"""Percentiles, and the shape of `.bench/results.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """One kind of turn, Choir's whole path beside the floor; milliseconds."""

    choir_p50_ms: float
    choir_p99_ms: float
    floor_pg_p50_ms: float
    floor_pg_p99_ms: float
    ratio: float
    turns: int


def turn_figures(choir_ms: Sequence[float], floor_ms: Sequence[float]) -> TurnFigures:
    """Sum up one kind's samples."""
    choir_p50, floor_p50 = percentile(choir_ms, 0.5), percentile(floor_ms, 0.5)
    return TurnFigures(
        choir_p50_ms=round(choir_p50, 2),
        choir_p99_ms=round(percentile(choir_ms, 0.99), 2),
        floor_pg_p50_ms=round(floor_p50, 2),
        floor_pg_p99_ms=round(percentile(floor_ms, 0.99), 2),
        ratio=round(choir_p50 / floor_p50, 2),
        turns=len(choir_ms),
    )


@dataclass(slots=True)
class Results:
    """All figures of one run."""

    turns: dict[str, TurnFigures] = field(default_factory=dict)
    throughput: dict[str, float] = field(default_factory=dict)
    rss_mb: dict[str, float] = field(default_factory=dict)
    start_s: dict[str, float] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the figures as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")
