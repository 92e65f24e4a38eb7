"""`make audit`: exit codes for packages without and with an advisory, and without a database."""

import contextlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
ADVISORY = {
    "id": "GHSA-0000-0000-0000",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "It is broken.",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "broken"}}],
}
PROJECT = """
[project]
name = "choir"
version = "1"
requires-python = ">=3.11"
dependencies = ["broken"]
"""
LOCK = """
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "broken"
version = "1.0"
source = {{ registry = "{url}simple" }}
sdist = {{ url = "{url}broken-1.0.tar.gz", hash = "sha256:{zeros}" }}

[[package]]
name = "choir"
version = "1"
source = {{ virtual = "." }}
dependencies = [{{ name = "broken" }}]

[package.metadata]
requires-dist = [{{ name = "broken" }}]
"""


class AdvisoryDatabase(http.server.BaseHTTPRequestHandler):
    """An OSV database, and the registry of the packages."""

    vulnerabilities: tuple[dict[str, object], ...] = ()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer({"results": [{"vulns": self.vulnerabilities} for _ in body["queries"]]})

    def do_GET(self) -> None:
        if self.path.startswith("/simple"):
            about = {"meta": {"api-version": "1.1"}, "name": "broken", "files": [], "versions": []}
            self._answer(about, "application/vnd.pypi.simple.v1+json")
        else:
            self._answer(ADVISORY)

    def log_message(self, *args: object) -> None:
        """Print nothing."""

    def _answer(self, content: dict[str, object], kind: str = "application/json") -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def database(*vulnerabilities: dict[str, object]) -> Iterator[str]:
    handler = type("Handler", (AdvisoryDatabase,), {"vulnerabilities": vulnerabilities})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def audit(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run the audit of a project with one package against a database."""
    (folder / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/audit", folder / "scripts")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "uv.lock").write_text(LOCK.format(url=url, zeros="0" * 64))
    path = f"{ROOT / '.tools/bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [script, "--service-url", url, "--no-cache"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "UV_HTTP_RETRIES": "0"},
    )


@pytest.mark.parametrize(("vulnerabilities", "code"), [((), 0), ((ADVISORY,), 1)])
def test_a_package_with_an_advisory_is_named_and_fails_the_audit(
    tmp_path: Path, vulnerabilities: tuple[dict[str, object], ...], code: int
) -> None:
    with database(*vulnerabilities) as url:
        done = audit(tmp_path, url)
    assert done.returncode == code, done.stderr
    assert ("GHSA-0000-0000-0000" in done.stdout) is (code == 1)


def test_an_unreachable_database_is_not_taken_for_a_clean_result(tmp_path: Path) -> None:
    done = audit(tmp_path, f"http://127.0.0.1:{free_port()}/")
    assert done.returncode == 3
    assert "NOT CHECKED" in done.stderr
