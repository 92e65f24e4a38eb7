"""A user of a cluster who writes all the time, and the effect ledger of what was done and answered."""

import contextlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2

from choir_common.stack_secrets import OPERATOR_TOKEN
from tests.support.cluster import MENDED_WITHIN_S, NAMESPACE, kubectl, volume_of

PAGE = 200
IDEMPOTENCY_KEY = "Idempotency-Key"


class ClusterLoad:
    """Sends messages to the console, each until it is accepted; each runs a tool that appends its mark."""

    def __init__(self) -> None:
        self._home = volume_of(NAMESPACE, "choir-home") / "home"
        token = json.loads((self._home / "secrets.json").read_text())[OPERATOR_TOKEN]
        address = kubectl(
            "-n", NAMESPACE, "get", "service", "control", "-o", "jsonpath={.spec.clusterIP}"
        )
        self._client = httpx2.Client(
            base_url=f"https://{address}:9400/v1/dms/console",
            headers={"Authorization": f"Bearer {token}"},
            verify=False,
            timeout=5,
            # without a leader the Service leads nowhere, and a connection must not outlive that
            limits=httpx2.Limits(max_keepalive_connections=0),
        )
        self.accepted: dict[str, str] = {}
        """Inbox ids by the mark of their message."""
        self.answers: dict[int, str] = {}
        """Which message each outbox id answers."""
        self.texts: dict[str, str] = {}
        """What was answered to a message."""
        self.turns: list[tuple[float, float]] = []
        """When each message was said and when it was answered, by the monotonic clock."""
        self.fault = ""
        self._run = secrets.token_hex(4)
        self._number = 0
        self._talking = threading.Lock()

    def ask(self) -> float:
        """Say something and wait for its answer; return the seconds that it took."""
        with self._talking:
            began, mark = time.monotonic(), f"{self._run}-{self._number}"
            self._number += 1
            self._say(mark)
            while self.accepted[mark] not in self.answers.values():
                assert time.monotonic() - began < MENDED_WITHIN_S, f"{mark} was never answered"
                time.sleep(0.1)
                self._listen()
            self.turns.append((began, time.monotonic()))
            return time.monotonic() - began

    def longest_wait(self, since: float) -> float:
        """Return the seconds that a message had to wait at most, counted from `since` if it is older."""
        return max(end - max(began, since) for began, end in self.turns if end > since)

    def _say(self, mark: str) -> None:
        call = json.dumps({"command": f"echo {mark} >> ledger.txt"})
        body = {"text": f"#delay=30 #tools=1 #tool=choir.exec {call}"}
        until = time.monotonic() + MENDED_WITHIN_S
        while time.monotonic() < until:
            with contextlib.suppress(httpx2.HTTPError):
                answer = self._client.post("/messages", json=body, headers={IDEMPOTENCY_KEY: mark})
                refused = (400, 401, 403, 404, 422)
                assert answer.status_code not in refused, (answer.status_code, answer.text)
                if answer.is_success:
                    self.accepted[mark] = answer.json()["inbox_id"]
                    return
            time.sleep(0.1)
        raise AssertionError(f"{mark} was never accepted")

    def _listen(self) -> None:
        """Read what was delivered since the last time."""
        after = max(self.answers, default=0)
        with contextlib.suppress(httpx2.HTTPError):
            page = self._client.get("/messages", params={"after": after, "limit": PAGE})
            if page.is_success:
                self._note(page.json()["messages"])

    def _note(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if message["kind"] != "notice" and not message.get("edits"):
                self.answers[message["outbox_id"]] = message["answers"]
                self.texts[message["answers"]] = message["text"]

    @contextlib.contextmanager
    def talking(self) -> Iterator[None]:
        """Say one thing after the other during the block."""
        over = threading.Event()

        def talk() -> None:
            try:
                while not over.is_set():
                    self.ask()
            except Exception as error:
                self.fault = repr(error)

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert not self.fault

    def check(self) -> str:
        """Check that nothing was lost and nothing was done or said twice; return what was counted."""
        self._listen()
        said = Counter(self.answers.values())
        wrong = {mark: said[inbox] for mark, inbox in self.accepted.items() if said[inbox] != 1}
        assert not wrong, f"messages with another number of answers than one: {wrong}"
        done = Counter((self._home / "workspaces/main/ledger.txt").read_text().split())
        done = Counter({mark: times for mark, times in done.items() if mark.startswith(self._run)})
        assert max(done.values()) == 1, [mark for mark, times in done.items() if times > 1]
        assert set(done) <= set(self.accepted)
        missing = {mark: self.texts[self.accepted[mark]] for mark in set(self.accepted) - set(done)}
        assert all("interrupted" in text for text in missing.values()), missing
        return (
            f"{len(self.accepted)} messages, each answered once; {len(done)} effects, none twice; "
            f"{len(missing)} reported as interrupted"
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
