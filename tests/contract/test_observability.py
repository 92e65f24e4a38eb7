"""`deploy/observability`: what it configures parses, fits together, and asks only for figures there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_control.log.metrics.meter import ControlMetrics, GaugeStore

ROOT = Path(__file__).parents[2]
HERE = ROOT / "deploy" / "observability"
OF_PROMETHEUS = {"up": {"job", "instance"}}
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
    "unknown": ("",),
}
WORDS = re.compile(r'"[^"]*"|[a-zA-Z_:][a-zA-Z0-9_:]*')
LANGUAGE = {"sum", "rate", "by", "le", "histogram_quantile"}


def read(name: str) -> Any:
    text = (HERE / name).read_text()
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def whole_stack() -> dict[str, Any]:
    """Return the services of the compose file by name."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return services


def figures_of(registry: CollectorRegistry) -> dict[str, set[str]]:
    """Return every name a service shows, with its labels."""
    found: dict[str, set[str]] = {}
    for collector in list(registry._collector_to_names):
        labels = set(getattr(collector, "_labelnames", ()))
        for family in collector.collect():
            for suffix in SUFFIXES.get(family.type, ("",)):
                found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


NO_DATABASE = Database("", None, size=1, application="test")


def all_figures() -> dict[str, set[str]]:
    metrics = Metrics("test")
    ControlMetrics(metrics, GaugeStore(NO_DATABASE))
    known = {**OF_PROMETHEUS, **figures_of(metrics.registry)}
    return {name: labels | {"job", "instance"} for name, labels in known.items()}


def questions() -> Iterator[tuple[str, str, str]]:
    """Yield every question asked of Prometheus: where, the question, and the words shown with it."""
    for panel in read("grafana/choir.json")["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']!r}", target["expr"], target["legendFormat"]
    for group in read("alerts.yml")["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"], rule["annotations"]["summary"]


def test_every_panel_and_alert_asks_for_figures_that_there_are() -> None:
    known = all_figures()
    asked = list(questions())
    assert len(asked) > 20
    for where, question, words in asked:
        named = {word for word in WORDS.findall(question) if not word.startswith('"')}
        figures = {word for word in named if word in known}
        assert figures, f"{where} asks for nothing we know: {question}"
        labels = set().union(*(known[name] for name in figures))
        shown = set(re.findall(r"{{ *(?:\$labels\.)?(\w+) *}}", words))
        durations = set(re.findall(r"\[\d+([smhd])\]", question))
        unknown = (named | shown) - figures - labels - LANGUAGE - durations
        assert not unknown, f"{where}: {unknown} in {question!r}, {words!r}"
        for opening, closing in ("()", "{}", "[]"):
            assert question.count(opening) == question.count(closing), question


def test_every_figure_of_choird_is_shown_somewhere() -> None:
    asked = " ".join(question for _, question, _ in questions())
    own = {name for name in all_figures() if name.startswith("choir_")}
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in own}
    unseen = {name for name in families if name not in asked} - {"choir_service_info"}
    assert not {name for name in unseen if not name.endswith("_created")}


def test_a_dashboard_that_grafana_takes() -> None:
    board = read("grafana/choir.json")
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    sources = {source["uid"] for source in read("grafana/datasources.yml")["datasources"]}
    assert {panel["datasource"]["uid"] for panel in board["panels"]} <= sources
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        assert place["x"] + place["w"] <= 24
        taken |= cells


def scrape_targets() -> Iterator[str]:
    """Yield every address that Prometheus asks, with a name that may not resolve."""
    for job in read("prometheus.yml")["scrape_configs"]:
        for config in job.get("static_configs", ()):
            yield from config["targets"]
        for config in job.get("dns_sd_configs", ()):
            yield from (f"{name}:{config['port']}" for name in config["names"])


def test_whoever_is_asked_or_told_is_a_service_on_a_shared_network() -> None:
    services = whole_stack()

    def reaches(one: str, other: str) -> bool:
        return bool(set(services[one]["networks"]) & set(services[other]["networks"]))

    targets = list(scrape_targets())
    for target in targets:
        name, _, port = target.partition(":")
        assert reaches("prometheus", name), target
        assert port in json.dumps(services[name]["healthcheck"]["test"]), target
    assert {target.partition(":")[0] for target in targets} == {
        name for name, service in services.items() if "OTEL" in json.dumps(service)
    }
    for source in read("grafana/datasources.yml")["datasources"]:
        assert reaches("grafana", re.fullmatch(r"http://(\w+):\d+", source["url"])[1])  # type: ignore[index]
    assert reaches("collector", "jaeger")
    assert reaches("collector", "rehearsal"), "agents share a network with the collector"
    assert not reaches("prometheus", "rehearsal"), "agents reach the collector, and nothing else"
    assert not reaches("jaeger", "rehearsal")


def test_spans_are_sent_where_the_collector_takes_them() -> None:
    collector = read("collector.yml")
    endpoint = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    address = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:{endpoint.rpartition(':')[2]}"
    for path in (HERE / "README.md", ROOT / ".env.example"):
        assert address in path.read_text(), path
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(collector[kind])


def test_what_is_mounted_exists_and_what_is_published_is_for_this_machine() -> None:
    for name, service in whole_stack().items():
        if "observability" not in service.get("profiles", ()):
            continue
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).is_file(), f"{name}: {source}"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        image = service.get("image", "pinned:1")
        assert re.fullmatch(r"[\w./-]+:v?\d[\w.]*", image), f"{name}: {image} names no version"
