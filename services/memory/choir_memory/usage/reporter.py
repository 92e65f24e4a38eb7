"""Reporter of provider usage: collects it in memory, and sends it to control about once a second.

A report has an id and is sent until control has stored it, so each is counted once. What was not sent when
the process is killed is lost: at most the usage of about a second.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import structlog

from choir_common.clients.control import UsageClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.ids import new_id
from choir_common.wire.money import MAX_MODEL_NAME, UsageReport, UsageReports
from choir_memory.usage.token_count import add_tokens
from choir_models.call_meter import usage_details
from choir_models.model import Completion

log = structlog.get_logger("choir.memory.usage")

INTERVAL_S = 1.0
LAST_REPORT_S = 2.0
"""Time for the last report at shutdown."""
MAX_REPORTS = 20_000
"""Reports kept while control is unavailable."""
BATCH = 500
CHARACTERS_PER_TOKEN = 4
"""For a provider that does not count: an estimate."""

_agent: ContextVar[str | None] = ContextVar("agent", default=None)


@contextmanager
def work_for(agent_id: str) -> Iterator[None]:
    """Attribute the model calls inside the context to an agent."""
    token = _agent.set(agent_id)
    try:
        yield
    finally:
        _agent.reset(token)


def current_agent() -> str | None:
    """Return the agent of `work_for`, or None."""
    return _agent.get()


@dataclass(slots=True)
class _EmbeddingUse:
    """Use of an embedding model since the last report; searches of several agents share a request."""

    calls: int = 0
    tokens: int = 0


class UsageReporter:
    """Collector and sender of usage."""

    def __init__(self, client: UsageClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._reports: deque[UsageReport] = deque()
        self._embeddings: dict[str, _EmbeddingUse] = {}

    def add_completion(self, completion: Completion, name: str = "", reservation: str = "") -> None:
        """Report a call of memory's language model, for the agent of `work_for`.

        `name` is the model's name in config.json if it is not `memory.model`.
        """
        self._add(
            UsageReport(
                report_id=new_id("use"),
                kind="memory",
                agent_id=_agent.get(),
                # A provider chooses this name.
                model=completion.model[:MAX_MODEL_NAME],
                at=self._clock.now(),
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
                cached_tokens=completion.cached_tokens,
                usage=usage_details(completion, name, reservation),
            )
        )

    def add_embedding(self, model: str, texts: Sequence[str], tokens: int | None) -> None:
        """Report a request to an embedding model; without the provider's count it is estimated."""
        if tokens is None:
            tokens = sum(len(text) for text in texts) // CHARACTERS_PER_TOKEN + 1
        add_tokens(tokens)
        use = self._embeddings.setdefault(model, _EmbeddingUse())
        use.calls += 1
        use.tokens += tokens

    async def run(self) -> None:
        """Send reports until cancelled; then send the rest once."""
        try:
            while True:
                await asyncio.sleep(INTERVAL_S)
                await self.send()
        finally:
            try:
                async with asyncio.timeout(LAST_REPORT_S):
                    await self.send()
            except TimeoutError:
                log.warning("usage not reported", reports=len(self._reports))

    async def send(self) -> None:
        """Send what there is; what control did not confirm is sent again."""
        self._collect_embeddings()
        while self._reports:
            batch = tuple(self._reports)[:BATCH]
            try:
                await self._client.report_usage(UsageReports(reports=batch))
            except ChoirError as error:
                log.info("usage not reported; sending it again", error=error.message)
                return
            # Only this method removes reports, except for the oldest ones of a full queue.
            sent = {report.report_id for report in batch}
            while self._reports and self._reports[0].report_id in sent:
                self._reports.popleft()

    def _collect_embeddings(self) -> None:
        uses, self._embeddings = self._embeddings, {}
        for model, use in uses.items():
            self._add(
                UsageReport(
                    report_id=new_id("use"),
                    kind="embedding",
                    model=model,
                    at=self._clock.now(),
                    calls=use.calls,
                    prompt_tokens=use.tokens,
                )
            )

    def _add(self, report: UsageReport) -> None:
        if len(self._reports) >= MAX_REPORTS:
            lost = self._reports.popleft()
            log.error("usage lost: control was unavailable too long", model=lost.model)
        self._reports.append(report)
