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


@dataclass(frozen=True, slots=True)
class BusyFigures:
    """The edge lane's answers while core jobs work, beside idle; milliseconds."""

    idle_p50_ms: float
    idle_p95_ms: float
    busy_p50_ms: float
    busy_p95_ms: float
    ratio_p50: float
    ratio_p95: float
    turns: int
    job_steps: int
    """Model calls the jobs made meanwhile."""


def busy_figures(idle_ms: Sequence[float], busy_ms: Sequence[float], job_steps: int) -> BusyFigures:
    """Sum up both kinds' samples."""
    idle50, idle95 = percentile(idle_ms, 0.5), percentile(idle_ms, 0.95)
    busy50, busy95 = percentile(busy_ms, 0.5), percentile(busy_ms, 0.95)
    return BusyFigures(
        idle_p50_ms=round(idle50, 2),
        idle_p95_ms=round(idle95, 2),
        busy_p50_ms=round(busy50, 2),
        busy_p95_ms=round(busy95, 2),
        ratio_p50=round(busy50 / idle50, 2),
        ratio_p95=round(busy95 / idle95, 2),
        turns=len(busy_ms),
        job_steps=job_steps,
    )


@dataclass(frozen=True, slots=True)
class LongFigures:
    """Plain turns at the beginning and the end of a long session; medians in milliseconds."""

    early_ms: float
    late_ms: float
    floor_early_ms: float
    floor_late_ms: float
    ratio: float
    """late / early."""
    ratio_to_floor: float
    """The same, each divided by its floor."""
    events: int
    compactions: int


def long_figures(
    early: tuple[Sequence[float], Sequence[float]],
    late: tuple[Sequence[float], Sequence[float]],
    events: int,
    compactions: int,
) -> LongFigures:
    """Sum up the samples of Choir and floor, at both ends."""
    (a, floor_a), (b, floor_b) = (
        (percentile(choir, 0.5), percentile(floor, 0.5)) for choir, floor in (early, late)
    )
    return LongFigures(
        early_ms=round(a, 2),
        late_ms=round(b, 2),
        floor_early_ms=round(floor_a, 2),
        floor_late_ms=round(floor_b, 2),
        ratio=round(b / a, 2),
        ratio_to_floor=round((b / floor_b) / (a / floor_a), 2),
        events=events,
        compactions=compactions,
    )


@dataclass(frozen=True, slots=True)
class HeartbeatFigures:
    """Heartbeats with an event each at one choird, beside the bare loops they are made of."""

    agents: int
    per_s: int
    """Everyone as fast as it goes."""
    floor_pg_per_s: int
    floor_http_per_s: int
    paced_per_s: int
    """The timetable under which the latencies were taken, from when each was due."""
    p50_ms: float
    p99_ms: float
    refused: int
    """Heartbeats choird was too busy for; each was sent again within the figures above."""
    control_cpu_ms: float
    """Of choird alone, for one heartbeat."""
    round_trips: float
    """To Postgres for one heartbeat, counted on the wire."""
    control_rss_mb: float


@dataclass(slots=True)
class Results:
    """All figures of one run."""

    turns: dict[str, TurnFigures] = field(default_factory=dict)
    busy_edge: dict[str, BusyFigures] = field(default_factory=dict)
    """By how long the core jobs' model takes for a step."""
    long_session: LongFigures | None = None
    prefix_share: dict[str, dict[str, float]] = field(default_factory=dict)
    """By how often the window was compacted, then by lane."""
    throughput: dict[str, float] = field(default_factory=dict)
    heartbeats: HeartbeatFigures | None = None
    browser: dict[str, float] = field(default_factory=dict)
    """From a request to the page's text, beside bare Playwright."""
    gateway: dict[str, float] = field(default_factory=dict)
    """Through a fake Telegram: what the gateway adds to a message, and messages a second."""
    rss_mb: dict[str, float] = field(default_factory=dict)
    start_s: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """What could not be measured on this machine, and why."""

    def write(self, path: Path) -> None:
        """Write the figures as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")
