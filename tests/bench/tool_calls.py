"""Cost of a tool call: `true` in a domain of its own and launched plainly, in turns.

Measured in an agent's place: in the process runtime, and in a container of the agent's image.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]  # it ships no types
from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]

from choir_common.errors import Unavailable
from tests.bench import call_probe
from tests.bench.figures import percentile
from tests.security.runtimes.confined import confining
from tests.service.runtimes.containers import image_that_runs, yard_for

PROBE = Path(call_probe.__file__).read_text()


async def measure_calls() -> dict[str, float]:
    """Return the figures of calls in the process runtime."""
    async with confining(PROBE) as place:
        await place.runtime.start(place.spec())
        return _figures(await place.report())


async def measure_container_calls() -> dict[str, float]:
    """Return the figures of calls in a container; raises Unavailable without Docker or the image."""
    base = os.environ.get("CHOIR_AGENT_IMAGE", "choir-agent:local")
    _check_image(base)
    with image_that_runs(PROBE, base) as image:
        async with yard_for(image) as yard:
            await yard.runtime.start(yard.spec())
            return _figures(await yard.report())


def _check_image(name: str) -> None:
    try:
        client = docker.from_env(timeout=30)
    except DockerException as error:
        raise Unavailable(f"No Docker engine answers: {error}.") from error
    try:
        client.images.get(name)
    except ImageNotFound as error:
        raise Unavailable(
            f"There is no image {name}; `docker compose build agent` makes it."
        ) from error
    finally:
        client.close()


def _figures(report: Mapping[str, Any]) -> dict[str, float]:
    samples: Mapping[str, Sequence[float]] = report["samples"]
    p50 = {name: percentile(taken, 0.5) for name, taken in samples.items()}
    return {
        **{f"{name}_p50_ms": round(milliseconds, 2) for name, milliseconds in p50.items()},
        "added_p50_ms": round(p50["call"] - p50["plain"], 2),
        "ratio": round(p50["call"] / p50["plain"], 2),
        "offline_ratio": round(p50["offline_call"] / p50["plain"], 2),
        "call_p99_ms": round(percentile(samples["call"], 0.99), 2),
        "missing_walls": len(report["missing"]),
        "calls": len(samples["call"]),
    }
