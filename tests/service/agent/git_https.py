"""Serve git repositories over HTTPS to clients with the right header, and record the headers of all.

Run by `git_servers` as `python -m tests.service.agent.git_https ROOT CERTIFICATE KEY`, with the header on
standard input; it prints its port.
"""

import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Passes requests to git's own http-backend."""

    protocol_version = "HTTP/1.1"
    root = Path()
    wanted = ""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        header = self.headers.get("authorization", "")
        with (self.root / "seen.log").open("a") as seen:
            seen.write(f"{header}\n")
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        redirect = self.root / "redirect"
        if redirect.exists():
            self._send_on(redirect.read_text())
            return
        if header == self.wanted:
            note_processes(self.root)
            self._run_backend(body)
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the names are http.server's

    def _send_on(self, elsewhere: str) -> None:
        self.send_response(302)
        self.send_header("Location", elsewhere + self.path.removeprefix("/repo.git"))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _run_backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REMOTE_USER": "x",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        status = next((value for name, _, value in lines if name == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for name, _, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def note_processes(root: Path) -> None:
    """Keep what anybody could read of all processes while a client waits, if the test has asked for it."""
    if (root / "note").exists():
        read = [path.read_bytes() for path in _readable() if path.parent.name != str(os.getpid())]
        (root / "processes").write_bytes(b"\n".join(read))


def _readable() -> Iterator[Path]:
    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with contextlib.suppress(OSError):
                path.read_bytes()
                yield path


def main(root: str, certificate: str, key: str) -> None:
    """Serve until the process ends."""
    Handler.root, Handler.wanted = Path(root), sys.stdin.readline().strip()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
