"""Send a service what its own OpenAPI document describes, and what nothing describes (row S1).

Used by the fuzz tests of choird and of every other service. An answer is a failure of ours when it is a 5xx
that does not name a neighbour that is away, when it never comes, and when a refusal is no problem document.
"""

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

CASES = int(os.environ.get("CHOIR_TEST_FUZZ_CASES", "60"))
EVERY_CASE = "CHOIR_TEST_FUZZ_CASES" in os.environ
"""Whether this is `make nightly`."""
HUNG_AFTER_S = 60.0
# of a route whose bucket is empty, so many refusals are waited out; its other cases stay refused
WAITS = 10
REFUSED_AT_THE_DOOR = {401, 403, 429}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
# where a route reads its body by itself, the document does not say what it takes
NAMES = st.sampled_from(
    ["text", "idempotency_key", "tokens", "version", "name", "agent_id", "digest"]
)
NAMED = st.dictionaries(NAMES, st.text(min_size=1, max_size=40) | JSON, max_size=3)
WILD = st.binary(max_size=200) | (JSON | NAMED).map(lambda value: json.dumps(value).encode())


@dataclass(frozen=True, slots=True)
class Case:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass
class Fuzz:
    """What was sent to one service, and what came back."""

    client: httpx2.AsyncClient
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the name of a path's parameter: values that exist; every other case uses one."""
    away: tuple[str, ...] = ()
    """Parts of paths behind which a neighbour is missing in this test: they may say so, with 503."""
    slow: tuple[str, ...] = ()
    """Ends of paths whose answer waits for something that never happens here."""
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def cases(self) -> int:
        return self.answers.total()

    def not_reached(self, operations: Sequence[Any]) -> list[str]:
        """Return the routes that rejected every case at authentication: nothing was proven about them."""
        reached = {route for route, status in self.answers if status not in REFUSED_AT_THE_DOOR}
        return sorted({_name(one) for one in operations} - reached)

    async def send(self, case: Case, route: str = "") -> int:
        """Send a case and return its status, 0 if a slow route kept it; of a stream only the head is read."""
        status, wait_s = await self._send(case)
        key = route or f"{case.method} {case.path}"
        if status == 429 and self.answers[key, 429] < WAITS:
            await asyncio.sleep(min(wait_s, 2))
            self.answers[key, 429] += 1
            status, _ = await self._send(case)
        self.answers[key, status] += 1
        return status

    async def _send(self, case: Case) -> tuple[int, float]:
        slow = case.path.endswith(self.slow) if self.slow else False
        try:
            async with self.client.stream(
                case.method,
                case.path,
                params=dict(case.query),
                headers=dict(case.headers),
                content=case.body,
                timeout=2.0 if slow else HUNG_AFTER_S,
            ) as answer:
                if answer.status_code >= 400:
                    self._judge(case, answer, await answer.aread())
                return answer.status_code, float(answer.headers.get("retry-after", 1))
        except httpx2.ReadTimeout:
            assert slow, f"no answer within {HUNG_AFTER_S:g} s: {case}"
            return 0, 0.0

    def _judge(self, case: Case, answer: httpx2.Response, body: bytes) -> None:
        told = (case, answer.status_code, body[:500])
        if case.method == "HEAD" or (case.path == "/readyz" and answer.status_code == 503):
            return
        assert answer.headers["content-type"] == "application/problem+json", told
        assert json.loads(body)["code"] and b"Traceback" not in body, told
        if answer.status_code >= 500:
            assert answer.status_code == 503, told
            assert any(part in case.path for part in self.away), told

    async def try_route(self, operation: Any, number: int, cases: int) -> None:
        """Send a route what its own description makes, and what nothing describes."""
        method = operation.method.upper()

        @seed(number)
        @settings(
            max_examples=cases, database=None, deadline=None, suppress_health_check=[*HealthCheck]
        )
        @given(made=operation.as_strategy(), body=WILD, wild=st.booleans(), real=st.booleans())
        async def one(made: Any, body: bytes, wild: bool, real: bool) -> None:
            path = operation.path
            for name, value in (made.path_parameters or {}).items():
                given_ = self.known[name][0] if real and name in self.known else str(value)
                path = path.replace("{" + name + "}", quote(given_, safe="") or "x")
            headers = {"Content-Type": "application/json"}
            for name, value in dict(made.headers or {}).items():
                with contextlib.suppress(UnicodeEncodeError):
                    text = str(value).encode("ascii").decode().strip()
                    # who calls is said by the client: made tokens are all refused at the door
                    if text.isprintable() and name not in self.client.headers:
                        headers[name] = text
            content = None
            if method in ("POST", "PUT", "PATCH"):
                # but for the one verb that ends the session all others need
                fits = not wild and path != "/rpc/TERMINATE_SELF"
                fits = fits and isinstance(made.body, dict | list | str | int | float | bool)
                content = json.dumps(made.body, default=str).encode() if fits else body
            query = {name: str(value) for name, value in dict(made.query or {}).items()}
            await self.send(Case(method, path, query, headers, content), _name(operation))

        # inner_test is what pytest's plugin would wrap; here the loop is ours already
        inner, loop = one.hypothesis.inner_test, asyncio.get_running_loop()

        def blocking(**given_: Any) -> None:
            asyncio.run_coroutine_threadsafe(inner(**given_), loop).result(2 * HUNG_AFTER_S + 30)

        one.hypothesis.inner_test = blocking
        await asyncio.to_thread(one)


def operations_in(document: dict[str, Any]) -> list[Any]:
    """Return the operations an OpenAPI document describes."""
    schema = schemathesis.openapi.from_dict(document)
    return [result.ok() for result in schema.get_all_operations()]


def _name(operation: Any) -> str:
    return f"{operation.method.upper()} {operation.path}"
