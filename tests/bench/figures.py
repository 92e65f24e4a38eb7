"""Result types of the benchmark, which are the format of `.bench/results.json`, and percentiles."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of `values` at `share` (0 to 1)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """Times of one kind of turn, for Choir and the baseline, in milliseconds."""

    choir_p50_ms: float
    choir_p99_ms: float
    floor_pg_p50_ms: float
    floor_pg_p99_ms: float
    ratio: float
    turns: int


def turn_figures(choir_ms: Sequence[float], floor_ms: Sequence[float]) -> TurnFigures:
    """Return the figures for the samples of one kind of turn."""
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
class FirstTokenSample:
    """Times of one reply, in milliseconds; of a direct request, nothing else is between client and model."""

    request_ms: float
    """From the client's message to the request at the model."""
    shown_ms: float
    """From the first chunk that the model writes to the client that sees it."""
    total_ms: float
    """From the client's message to the visible chunk."""
    accepted_ms: float = 0.0
    """From the message to the response that it is stored; the reply does not wait for it."""


@dataclass(frozen=True, slots=True)
class FirstTokenFigures:
    """Times from a message to the first visible token of its reply, and of both halves, in milliseconds."""

    choir_p50_ms: float
    choir_p99_ms: float
    direct_p50_ms: float
    """The same request sent to the model directly."""
    added_p50_ms: float
    accepted_p50_ms: float
    """From the message to the response that it is stored."""
    request_p50_ms: float
    """From the message to the request at the model."""
    request_direct_p50_ms: float
    shown_p50_ms: float
    """From the token that the model writes to the client that sees it."""
    shown_p99_ms: float
    shown_direct_p50_ms: float
    samples: int


def first_token_figures(
    choir: Sequence[FirstTokenSample], direct: Sequence[FirstTokenSample]
) -> FirstTokenFigures:
    """Return the figures for the samples of Choir and of the model read directly."""
    total = [sample.total_ms for sample in choir]
    shown = [sample.shown_ms for sample in choir]
    floor_p50 = percentile([sample.total_ms for sample in direct], 0.5)
    return FirstTokenFigures(
        choir_p50_ms=round(percentile(total, 0.5), 2),
        choir_p99_ms=round(percentile(total, 0.99), 2),
        direct_p50_ms=round(floor_p50, 2),
        added_p50_ms=round(percentile(total, 0.5) - floor_p50, 2),
        accepted_p50_ms=round(percentile([sample.accepted_ms for sample in choir], 0.5), 2),
        request_p50_ms=round(percentile([sample.request_ms for sample in choir], 0.5), 2),
        request_direct_p50_ms=round(percentile([sample.request_ms for sample in direct], 0.5), 2),
        shown_p50_ms=round(percentile(shown, 0.5), 2),
        shown_p99_ms=round(percentile(shown, 0.99), 2),
        shown_direct_p50_ms=round(percentile([sample.shown_ms for sample in direct], 0.5), 2),
        samples=len(choir),
    )


@dataclass(frozen=True, slots=True)
class BusyEdgeFigures:
    """Answer times of an edge lane, alone and beside other work of its agent, in milliseconds."""

    idle_p50_ms: float
    idle_p95_ms: float
    busy_p50_ms: float
    busy_p95_ms: float
    ratio_p50: float
    ratio_p95: float
    turns: int
    job_steps: int
    """Model calls made by the jobs, or in the other conversations, during the measurement."""


def busy_figures(
    idle_ms: Sequence[float], busy_ms: Sequence[float], job_steps: int
) -> BusyEdgeFigures:
    """Return the figures for the samples of an idle and a busy agent."""
    idle50, idle95 = percentile(idle_ms, 0.5), percentile(idle_ms, 0.95)
    busy50, busy95 = percentile(busy_ms, 0.5), percentile(busy_ms, 0.95)
    return BusyEdgeFigures(
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
class LongSessionFigures:
    """Medians of plain turns at the start and the end of a long session, in milliseconds."""

    early_ms: float
    late_ms: float
    floor_early_ms: float
    floor_late_ms: float
    ratio: float
    """`late_ms` divided by `early_ms`."""
    ratio_to_floor: float
    """The same ratio, after dividing each value by its baseline."""
    events: int
    compactions: int


def long_figures(
    early: tuple[Sequence[float], Sequence[float]],
    late: tuple[Sequence[float], Sequence[float]],
    events: int,
    compactions: int,
) -> LongSessionFigures:
    """Return the figures; `early` and `late` are the samples of Choir and of the baseline."""
    (a, floor_a), (b, floor_b) = (
        (percentile(choir, 0.5), percentile(floor, 0.5)) for choir, floor in (early, late)
    )
    return LongSessionFigures(
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
    """Heartbeats with one event each at one choird, and the baselines for database and HTTP."""

    agents: int
    per_s: int
    """Throughput when every agent sends its next heartbeat at once."""
    floor_pg_per_s: int
    floor_http_per_s: int
    paced_per_s: int
    """The fixed rate at which the latencies were measured, from the time each heartbeat was due."""
    p50_ms: float
    p99_ms: float
    refused: int
    """Heartbeats that choird refused with 503; the retries are included in the figures above."""
    control_cpu_ms: float
    """CPU time of choird per heartbeat."""
    round_trips: float
    """Round trips to Postgres per heartbeat, counted by a proxy."""
    control_rss_mb: float


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """What an idle stack uses each minute, without and with schedules that are not due."""

    control_ms: float
    control_with_ms: float
    postgres_ms: float
    postgres_with_ms: float
    transactions: float
    transactions_with: float
    schedules: int
    minutes: float
    """Time that each of both was measured."""


@dataclass(slots=True)
class BenchResults:
    """All figures of one run."""

    turns: dict[str, TurnFigures] = field(default_factory=dict)
    busy_edge: dict[str, BusyEdgeFigures] = field(default_factory=dict)
    """Keyed by the time that the core jobs' model takes per step."""
    busy_conversations: BusyEdgeFigures | None = None
    """Beside 20 busy conversations."""
    long_session: LongSessionFigures | None = None
    prefix_share: dict[str, dict[str, float]] = field(default_factory=dict)
    """Keyed by how often the window was compacted, then by lane."""
    throughput: dict[str, float] = field(default_factory=dict)
    heartbeats: HeartbeatFigures | None = None
    schedules: ScheduleFigures | None = None
    first_token: FirstTokenFigures | None = None
    streaming_cpu: dict[str, float] = field(default_factory=dict)
    """CPU time of control, gateway, NATS and the agent per plain turn, with and without streaming."""
    browser: dict[str, float] = field(default_factory=dict)
    """Time from a request to the page's text, for the service and for bare Playwright."""
    web_page: dict[str, dict[str, float]] = field(default_factory=dict)
    """A cold load, and the frames of log and chat while a session is busy, each beside an empty page."""
    gateway: dict[str, float] = field(default_factory=dict)
    """With a fake Telegram: the latency that the gateway adds to a message, and messages per second."""
    egress: dict[str, float] = field(default_factory=dict)
    """Model requests directly and through the egress proxy, over one connection and over new ones."""
    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    """A command in a domain of its own and launched plainly; keyed by the agent's runtime."""
    rss_mb: dict[str, float] = field(default_factory=dict)
    start_s: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Skipped measurements, and the reason for each."""

    def write(self, path: Path) -> None:
        """Write the figures as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")
