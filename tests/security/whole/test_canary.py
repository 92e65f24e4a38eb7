"""Row S10: a canary in every secret slot of a whole stack, and neighbours that repeat what they are told.

Every provider here answers with an error that quotes the key it was given, as it came and in base64. Then
everything that Choir wrote is searched: logs, a dump of the database, the bus, the state directory, /metrics,
what the user heard, and what its processes show of themselves.
"""

import asyncio
import base64
import contextlib
import gzip
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import nats
import psutil
from nats.aio.msg import Msg

from choir_common.bus.permissions import service_permissions
from choir_common.http.client import make_client
from choir_common.ids import SERVICE_NAMES
from choir_common.stack_secrets import bus_key
from choir_local.database.connection import open_database, run_program
from choir_local.settings import LocalSettings
from tests.support.process_memory import read_memory
from tests.support.service_process import socket_of
from tests.support.stack import (
    EmbeddedStack,
    console_user,
    read_log,
    running_stack_in_thread,
    sessions_of,
)

SLOTS = (
    "model-key", "tts-key", "notion-key", "brave-key", "git-token", "mail-login", "embed-key",
    "metrics-token",
)  # fmt: skip
CANARIES = {
    name: f"canary/{name}+{os.urandom(9).hex()}=" for name in SLOTS if name != "mail-login"
} | {
    "mail-login": f"me@example.org:canary/mail+{os.urandom(9).hex()}=",
    "bot-token": f"{10**9}:AAcanary-{os.urandom(9).hex()}",
    "git-key": "\n".join(
        ["-----BEGIN OPENSSH PRIVATE KEY-----"]
        + [base64.b64encode(os.urandom(48)).decode() for _ in range(4)]
        + ["-----END OPENSSH PRIVATE KEY-----"]
    ),
}
PROXIED = ("model-key", "tts-key", "notion-key", "brave-key", "git-token")
"""Keys that the egress proxy adds, so that no agent's process has them."""
HEARD = ("model-key", "tts-key", "notion-key", "brave-key", "bot-token")
CALLS = [
    {"name": "choir.web.search", "arguments": {"query": "one"}},
    {"name": "choir.notion.query", "arguments": {"operation": "search", "query": "x"}},
    {"name": "choir.tts.speak", "arguments": {"text": "hello"}},
    {"name": "choir.email.check", "arguments": {}},
    {"name": "choir.exec", "arguments": {"command": "env; cat /proc/*/environ; ps axe"}},
]


@dataclass(frozen=True, slots=True)
class Gossip:
    """What came to the server: addresses and headers, spans, and bodies (prompts among them)."""

    url: str
    heard: list[str]
    spans: list[bytes]
    bodies: list[bytes]


@contextlib.asynccontextmanager
async def wiretap(stack: EmbeddedStack) -> AsyncIterator[list[bytes]]:
    """Hear every message on the bus, with its subject and headers."""
    taken: list[bytes] = []

    async def take(message: Msg) -> None:
        taken.append(
            b"\n".join((message.subject.encode(), str(message.headers).encode(), message.data))
        )

    async with contextlib.AsyncExitStack() as lines:
        for service in SERVICE_NAMES:
            key = stack.secret(bus_key(service))
            line = await nats.connect(stack.children()["endpoints"]["nats"], nkeys_seed_str=key)
            lines.push_async_callback(line.close)
            for subject in service_permissions(service).subscribe:
                await line.subscribe(subject, cb=take)
            await line.flush()
        yield taken


@contextlib.contextmanager
def gossip() -> Iterator["Gossip"]:
    """Run a server that refuses everything and quotes the key, and takes spans."""
    heard: list[str] = []
    spans: list[bytes] = []
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/v1/traces":
                spans.append(body)
                self.send_response(200)
                self.end_headers()
                return
            bodies.append(body)
            keys = [self.path, *(value for _, value in self.headers.items())]
            heard.extend(keys)
            coded = [base64.b64encode(key.encode()).decode() for key in keys]
            said = f"this cannot be done for {keys} {coded}"
            refusal = json.dumps({"ok": False, "description": said, "error": {"message": said}})
            self.send_response(400)  # a 401 is told in our own words, anything else in theirs
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(refusal.encode())))
            self.end_headers()
            self.wfile.write(refusal.encode())

        do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the base's own names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Gossip(f"http://127.0.0.1:{server.server_port}", heard, spans, bodies)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fill_every_slot(home: Path, url: str) -> None:
    """Put a canary into every slot and name each of them in config.json."""
    config = json.loads((home / "config.json").read_text())
    config["models"] = {
        "quoting": {"model": "m", "endpoint": f"{url}/v1", "secret": "model-key"},
    }
    config["tts"] = {"t": {"model_id": "m", "endpoint": url, "secret": "tts-key"}}
    config["voice_profiles"] = {"v": {"tts": "t", "voice_id": "x"}}
    config["notion_integrations"] = {"n": {"secret": "notion-key", "endpoint": url}}
    config["search"] = {"s": {"secret": "brave-key", "endpoint": url}}
    config["git_identities"] = {
        "g": {"name": "n", "email": "e@x.org", "secret": "git-token"},
        "k": {"name": "n", "email": "e@x.org", "secret": "git-key"},
    }
    config["email_accounts"] = {
        "e": {
            "smtp_host": "127.0.0.1",
            "smtp_port": 1,
            "imap_host": "127.0.0.1",
            "imap_port": 1,
            "sharing": "shared",
            "secret": "mail-login",
        }
    }
    config["gateways"]["bot"] = {"type": "telegram", "secret": "bot-token", "api_url": url}
    config["dms"]["other"] = {"gateway": "console", "user_id": "other"}
    config["workspaces"]["other"] = {"path": str(home / "workspaces" / "other")}
    (home / "workspaces" / "other").mkdir()
    defaults = config["agents"]["main"]["defaults"]
    defaults |= {"voice_profile": "v", "git_identity": "g", "notion": "n", "email": "e"}
    config["agents"]["other"] = {
        "defaults": {"workspace": "other", "llm": "quoting", "dm": "other", "git_identity": "k"},
        "autostart": True,
    }
    (home / "config.json").write_text(json.dumps(config))
    secrets = json.loads((home / "secrets.json").read_text())
    (home / "secrets.json").write_text(json.dumps({**secrets, **CANARIES}))


def forms(value: str) -> set[bytes]:
    """Return a secret as it may stand somewhere: raw, URL-encoded, in base64 at each of three offsets."""
    raw = value.encode()
    shifted = {base64.b64encode(b"\0" * shift + raw).decode()[4:-4] for shift in range(3)}
    return {raw, quote(value, safe="").encode(), quote(value).encode()} | {
        each.encode() for each in shifted
    }


def parts(value: str) -> list[str]:
    """Return what must not be found: all of a login and its password, all of a key and each line of it."""
    lines = [line for line in value.splitlines() if not line.startswith("-----")]
    return [value, *([value.partition(":")[2]] if ":" in value else []), *lines]


async def everything(stack: EmbeddedStack) -> list[tuple[str, bytes]]:
    """Return all that Choir wrote or shows, by where it was found."""
    found: list[tuple[str, bytes]] = []
    for path in stack.home.rglob("*"):
        # the two places that are for secrets: the operator's file, and the bus's own settings
        if path.name in ("secrets.json", "nats.conf") or not path.is_file():
            continue
        with contextlib.suppress(OSError):
            found.append((str(path), path.read_bytes()))
            if path.suffix == ".gz":
                found.append((str(path), gzip.decompress(path.read_bytes())))
    dump = stack.home / "dump.sql"
    async with open_database(LocalSettings(home=stack.home)) as reached:
        options = ("--format=plain", "--inserts", "--file", str(dump), "choir")
        await run_program(reached, "pg_dump", *options, inspect_progress=lambda: None)
    found.append(("the database", dump.read_bytes()))
    for name in ("choird", "memory", "browser", "egress", "gateway"):
        async with make_client(f"unix://{socket_of(stack.home, name)}") as client:
            found.append((f"{name} /metrics", (await client.get("/metrics")).content))
            found.append((f"{name} /readyz", (await client.get("/readyz")).content))
    for session in [*await sessions_of(stack), *await sessions_of(stack, "other")]:
        events = [event.model_dump_json() for event in await read_log(stack, session["session_id"])]
        found.append((f"session {session['session_id']}", "\n".join(events).encode()))
    for process in psutil.Process(stack.children()["supervisor_pid"]).children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            shown = [*process.cmdline(), *process.environ().values()]
            found.append((f"process {process.name()}", "\n".join(shown).encode()))
    return found


def keys_in_agents(stack: EmbeddedStack) -> tuple[int, list[str]]:
    """Return how many agents run, and which proxied keys their memory contains; only root can tell."""
    supervisor = psutil.Process(stack.children()["supervisor_pid"])
    agents = []
    for process in supervisor.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a command that has ended
            if {"choir_agent", "choir_agent.fork_server"} & {*process.cmdline()}:
                agents.append(process)
    found = [
        f"{name} in {process.pid}"
        for process in agents
        for piece in read_memory(process.pid)
        for name in PROXIED
        for form in forms(CANARIES[name])
        if form in piece
    ]
    return len(agents), found


async def test_no_canary_is_anywhere(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    score.write_text(
        json.dumps({"rules": [], "otherwise": [{"call": CALLS}, {"say": "done: {result.output}"}]})
    )
    with gossip() as heard_there:
        url, spans = heard_there.url, heard_there.spans
        async with (
            contextlib.AsyncExitStack() as taps,
            running_stack_in_thread(
                score,
                env={"CHOIR_LOG_LEVEL": "debug", "OTEL_EXPORTER_OTLP_ENDPOINT": url},
                prepare=lambda home: fill_every_slot(home, url),
                like_user=True,  # /proc shows the environment of each service as it was started
            ) as stack,
        ):
            said: list[str] = []
            wire = await taps.enter_async_context(wiretap(stack))
            for dm in ("console", "other"):
                async with console_user(stack.endpoint, dm) as user:
                    said.append((await user.wait_for_answer(await user.says("go on"), 120)).text)
                    said += [message.text for message in user.heard]
            await asyncio.sleep(6)  # spans are sent every five seconds
            missing, deadline = list(HEARD), time.monotonic() + 60
            while (missing or len(spans) <= 1) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                told = "\n".join(heard_there.heard)
                missing = [name for name in HEARD if CANARIES[name] not in told]
            assert missing == [], "these never left Choir, so nothing was proven of them"

            if os.geteuid() == 0:
                agents, found = await asyncio.to_thread(keys_in_agents, stack)
                assert agents >= 2
                assert found == []
            own = json.loads((stack.home / "secrets.json").read_text())
            places = [*await everything(stack), ("what the user heard", "\n".join(said).encode())]
            places.append(("the spans", b"\n".join(spans)))
            places.append(("what neighbours were sent", b"\n".join(heard_there.bodies)))
            places.append(("the bus", b"\n".join(wire)))
            assert len(spans) > 1
            assert any(b"choir.gateway.deliver" in message for message in wire)
            assert any(b'"messages"' in body for body in heard_there.bodies), "no prompt was heard"
            assert len(places) > 50
            hits = [
                f"{name} in {where}"
                for name, value in own.items()
                for part in parts(value)
                for form in forms(part)
                for where, text in places
                if form in text
            ]
            assert hits == []
            masked = [where for where, text in places if b"[redacted]" in text]
            assert masked, "no neighbour's words were kept anywhere, so none were searched"
