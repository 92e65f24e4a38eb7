"""`docker compose up` alone starts a chat; a profile adds the rest. No container is started here."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHAT = {
    "setup",
    "agent",
    "postgres",
    "nats",
    "rehearsal",
    "memory",
    "control",
    "egress",
    "gateway",
    "backups",
}
PROFILES = {
    "": set[str](),
    "browser": {"browser"},
    "ollama": {"ollama"},
    "observability": {"collector", "jaeger", "prometheus", "grafana"},
}
pytestmark = pytest.mark.skipif(
    shutil.which("docker") is None, reason="NOT TESTED: no docker compose to read its file with"
)


def render(profiles: str) -> dict[str, Any]:
    """Return what compose makes of the file with some profiles."""
    done = subprocess.run(
        ["docker", "compose", "-f", ROOT / "docker-compose.yml", "config", "--format=json"],
        # without the .env and the profiles of the user who runs the tests
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": "/home/you", "COMPOSE_PROFILES": profiles},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    config: dict[str, Any] = json.loads(done.stdout)
    return config


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_adds_its_services_to_the_chat(profile: str) -> None:
    services = render(profile)["services"]
    assert set(services) == CHAT | PROFILES[profile]
    # without the model server `setup` must not wait for it
    assert services["setup"]["depends_on"]["ollama"]["required"] is False


def test_whatever_a_profile_adds_is_as_hard_as_the_rest() -> None:
    config = render("browser,ollama,observability")
    services, networks = config["services"], config["networks"]
    for name in set[str]().union(*PROFILES.values()):
        service = services[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["mem_limit"]) > 0 and service["pids_limit"] > 0, name
        assert all(it["host_ip"] == "127.0.0.1" for it in service.get("ports", ())), name
    # what agents reach reaches no service: the proxy connects them on `agents`
    on_agents = {name for name, it in services.items() if "agents" in it.get("networks", ())}
    assert on_agents == {"rehearsal", "egress", "ollama", "collector"}
    assert not {"bus", "database"} & set(services["ollama"]["networks"])
    assert networks["watching"]["internal"] and networks["proxy"]["internal"]
