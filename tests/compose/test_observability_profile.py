"""Prometheus with Choir's own configuration, in its service of the profile `observability`.

Its image is one with Debian's package, because no registry is reachable in tests. Grafana, Jaeger and the
collector have no such package: their configuration is compared with the code in tests/contract.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.compose.containers import ROOT, ComposeStack, docker, running_containers
from tests.support.ports import free_port

TARGETS = {"control:9400", "memory:9402", "gateway:9401", "egress:9404", "browser:9403"}
STAND_IN = "choirtest-prometheus"
RECIPE = """
FROM debian:trixie-slim
RUN apt-get update -q && apt-get install -qy --no-install-recommends prometheus \\
    && install -d -o nobody /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
"""
WITHIN_S = 180
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@dataclass
class Watcher:
    """Prometheus' API."""

    url: str

    def ask(self, path: str, **params: str) -> Any:
        answer = httpx2.get(f"{self.url}/api/v1/{path}", params=params, timeout=30)
        body = answer.json()
        assert body["status"] == "success", f"{path} {params}: {body}"
        return body["data"]

    def health(self) -> dict[str, str]:
        """Return the state of each target."""
        active = self.ask("targets")["activeTargets"]
        return {it["labels"]["instance"]: f"{it['health']} {it['lastError']}" for it in active}


def wait_until(done: Callable[[], bool], said: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < deadline, said()
        time.sleep(1)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    place = tmp_path_factory.mktemp("observability")
    token = place / "metrics-token"
    token.write_text("0123456789abcdef0123456789abcdef")
    token.chmod(0o644)
    env = {"CHOIR_METRICS_TOKEN_FILE": str(token), "CHOIR_PROMETHEUS_PORT": str(free_port())}
    with running_containers(env=env) as stack:
        subprocess.run(
            ["docker", "build", "-q", "-t", STAND_IN, "-"], input=RECIPE, text=True, check=True
        )
        try:
            other = place / "image.json"
            service = {"image": STAND_IN, "pull_policy": "never"}
            other.write_text(json.dumps({"services": {"prometheus": service}}))
            stack.files += (other,)
            stack.compose("up", "--wait", "--no-recreate", "prometheus")
            yield stack
            stack.compose("rm", "--force", "--stop", "prometheus")
        finally:
            docker("image", "rm", "--force", STAND_IN)


@pytest.fixture(scope="module")
def watcher(stack: ComposeStack) -> Watcher:
    return Watcher(f"http://127.0.0.1:{stack.env['CHOIR_PROMETHEUS_PORT']}")


def test_prometheus_accepts_the_configuration_and_the_alerts(
    stack: ComposeStack, watcher: Watcher
) -> None:
    words = ("exec", "-T", "prometheus", "promtool", "check", "config")
    text = stack.compose(*words, "/etc/prometheus/prometheus.yml")
    rules = [it for group in watcher.ask("rules")["groups"] for it in group["rules"]]
    assert f"{len(rules)} rules found" in text and len(rules) >= 8
    wait_until(
        lambda: all(
            it["health"] == "ok" for each in watcher.ask("rules")["groups"] for it in each["rules"]
        ),
        lambda: watcher.ask("rules"),
    )


def test_prometheus_scrapes_every_service_and_knows_the_figures(
    stack: ComposeStack, watcher: Watcher
) -> None:
    # choird refuses it until the secret is set, as the README says
    wait_until(lambda: "401" in watcher.health().get("control:9400", ""), watcher.health)
    token = Path(stack.env["CHOIR_METRICS_TOKEN_FILE"]).read_text()
    command = ["docker", "compose", "-p", stack.project, "exec", "-T", "control", "choirctl"]
    subprocess.run(
        [*command, "secret", "set", "metrics-token"],
        input=token,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=120,
    )
    stack.compose("exec", "-T", "control", "choirctl", "secret", "apply")
    wait_until(lambda: watcher.health() == dict.fromkeys(TARGETS, "up "), lambda: watcher.health())
    for panel in json.loads((ROOT / "deploy/observability/grafana/choir.json").read_text())[
        "panels"
    ]:
        for target in panel["targets"]:
            watcher.ask("query", query=target["expr"])
    figure = 'choir_http_requests_total{job="choird"}'
    wait_until(lambda: bool(watcher.ask("query", query=figure)["result"]), lambda: figure)


def test_a_stack_without_the_browser_is_not_an_alert(stack: ComposeStack, watcher: Watcher) -> None:
    stack.compose("rm", "--force", "--stop", "browser")
    wait_until(lambda: set(watcher.health()) == TARGETS - {"browser:9403"}, watcher.health)
    # also that of choird, from before its token was set: rules are evaluated once a minute
    wait_until(lambda: not watcher.ask("alerts")["alerts"], lambda: watcher.ask("alerts"))
