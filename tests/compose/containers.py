"""Start the whole of Choir with `docker compose up --wait`, as a user would, and take it away again.

Each stack has a project name, a state directory and a port of its own, so that it meets no other.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.journey.conversation import PAGE
from tests.support.ports import free_port
from tests.support.stack import EmbeddedStack

ROOT = Path(__file__).parent.parent.parent
UP_WITHIN_S = 900  # a first build fetches every package; Chromium alone takes a minute
# not "page": browsers know that top-level domain for HTTPS only
PAGE_HOST = "harbour:8000"
# Serves the journey's page beside the browser, at an address that is private like any container's.
PAGE_SERVER = """
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(('', 8000), Page).serve_forever()
"""


def engine_answers() -> str:
    """Return why there is no engine with compose here, empty if there is."""
    for command in (["docker", "version"], ["docker", "compose", "version"]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return done.stderr.strip()
    return ""


@dataclass
class ComposeStack(EmbeddedStack):
    """A stack in containers; `run` drives it with the host's choirctl."""

    project: str = ""
    files: tuple[Path, ...] = ()

    @property
    def https(self) -> str:
        """Return control's address; its certificate is below the home."""
        return f"https://127.0.0.1:{self.http_port}"

    def compose(self, *args: str, check: bool = True, timeout: float = UP_WITHIN_S) -> str:
        """Run docker compose on this stack; return what it printed."""
        files = [word for path in self.files for word in ("-f", str(path))]
        done = subprocess.run(
            ["docker", "compose", "-p", self.project, *files, *args],
            env={**os.environ, **self.env, "CHOIR_HOME": str(self.home)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"docker compose {' '.join(args)} exited {done.returncode}\n{done.stderr[-800:]}\n"
                f"{self.compose('ps', '--all', check=False)}\n{self.logs()}\n{done.stdout[-4000:]}"
            )
        return done.stdout

    def logs(self, lines: int = 15) -> str:
        """Return the newest lines of every container and of every agent."""
        said = self.compose("logs", "--no-color", f"--tail={lines}", check=False, timeout=60)
        return f"{said}\n{super().logs(lines)}"

    def agent_containers(self) -> list[dict[str, Any]]:
        """Return what the engine says of this stack's agents."""
        return inspect_all(f"label=choir.home={self.home}")

    def service(self, name: str) -> dict[str, Any]:
        """Return what the engine says of a service's container."""
        found = inspect_all(
            f"label=com.docker.compose.project={self.project}",
            f"label=com.docker.compose.service={name}",
        )
        assert len(found) == 1, f"{len(found)} containers of {name}"
        return found[0]


def docker(*args: str) -> str:
    """Run docker; return what it printed."""
    done = subprocess.run(["docker", *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def inspect_all(*filters: str) -> list[dict[str, Any]]:
    """Return the engine's description of every container that the filters fit."""
    words = [word for text in filters for word in ("--filter", text)]
    ids = docker("ps", "--all", "--quiet", "--no-trunc", *words).split()
    described: list[dict[str, Any]] = json.loads(docker("inspect", *ids)) if ids else []
    return described


def write_additions(place: Path, score: Path | None) -> Path:
    """Write the compose file of what only tests have: a score to follow, a page to browse."""
    page = {
        "image": "python:3.13-slim-trixie",
        "command": ["python", "-c", PAGE_SERVER, PAGE],
        "networks": ["egress"],
        "init": True,
    }
    services: dict[str, Any] = {"harbour": page}
    if score is not None:
        program = ["/opt/tools/bin/python", "-I", "-m", "choir_local.rehearsal"]
        where = ["--host", "0.0.0.0", "--port", "8080", "--score", "/score.json"]
        services["rehearsal"] = {
            "command": [*program, *where],
            "volumes": [{"type": "bind", "source": str(score), "target": "/score.json"}],
        }
    path = place / "additions.json"
    path.write_text(json.dumps({"services": services}))
    return path


@contextlib.contextmanager
def running_containers(
    score: Path | None = None,
    owner: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[ComposeStack]:
    """Bring a stack up in a fresh home that belongs to `owner`, and leave nothing behind."""
    missing = engine_answers()
    if missing:
        pytest.skip(f"NO DOCKER ENGINE WITH COMPOSE ANSWERS: containers are not tested ({missing})")
    place = Path(tempfile.mkdtemp(prefix="choir-dc-"))
    home, port = place / "home", free_port()
    if owner is not None:
        place.chmod(0o755)
        home.mkdir(mode=0o700)
        os.chown(home, owner, owner)
    additions = write_additions(place, score)
    told = {
        "CHOIR_HTTP_PORT": str(port),
        "CHOIR_BROWSER_ALLOW": PAGE_HOST,
        "COMPOSE_PROFILES": "browser",
        **(env or {}),
    }
    stack = ComposeStack(
        home,
        port,
        told,
        project=f"choirtest{secrets.token_hex(3)}",
        files=(ROOT / "docker-compose.yml", additions),
    )
    try:
        stack.compose("up", "--wait", "--build", "--quiet-pull")
        yield stack
    finally:
        stack.compose("down", "--volumes", "--remove-orphans", "--timeout=20", check=False)
        for left in stack.agent_containers():
            docker("rm", "--force", left["Id"])
        stack.compose("down", "--volumes", "--remove-orphans", check=False)
        shutil.rmtree(place, ignore_errors=True)
