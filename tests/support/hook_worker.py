"""A process that accepts requests of a hook over a real database until it is killed."""

import asyncio
import json
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection

from choir_common.clock import SystemClock
from choir_common.errors import OutcomeUnknown, RateLimited, Unavailable
from choir_common.postgres.pool import Database
from choir_common.redactor import Redactor
from choir_common.webhook_signature import WebhookSigner
from choir_common.wire.config import Config
from choir_control.configuration.current import ConfigSnapshot
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.triggers.hooks import HookService
from choir_control.conversations.triggers.store import TriggerStore
from choir_control.conversations.triggers.worker import TriggerWorker
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

KEY = "key-of-the-hook-worker"
CONFIG = {
    "agents": {"main": {"defaults": {"workspace": "main", "llm": "default", "dm": "console"}}},
    "workspaces": {"main": {"path": "/tmp/main"}},
    "gateways": {"console": {"type": "console"}},
    "dms": {"console": {"gateway": "console", "user_id": "operator"}},
    "hooks": {"deploys": {"agent": "main", "secret": "key", "per_minute": 6_000}},
}
# Stands in for the agent: everything is answered at once.
ANSWER = "UPDATE choir_control.inbox SET answered_rev = 1 WHERE answered_rev IS NULL"


class FixedConfiguration:
    """A configuration that does not change."""

    def __init__(self) -> None:
        self.current = ConfigSnapshot(1, Config.model_validate_json(json.dumps(CONFIG)))


def make_services(database: Database) -> tuple[HookService, TriggerWorker]:
    """Return the service and the worker over a database."""
    store, configuration, clock = TriggerStore(database), FixedConfiguration(), SystemClock()
    worker = TriggerWorker(
        store,
        configuration=configuration,  # type: ignore[arg-type]
        notifier=Notifier(),
        signal_locks=SignalLocks(),
        clock=clock,
    )
    service = HookService(
        store,
        worker=worker,
        configuration=configuration,  # type: ignore[arg-type]
        secrets=SecretStore({"key": KEY}),
        redactor=Redactor(),
        clock=clock,
    )
    return service, worker


async def accept(service: HookService, number: int) -> None:
    """Send one request as a program would."""
    body = b'{"n": %d}' % number
    headers = WebhookSigner(KEY).sign(f"msg_{number}", body, datetime.now(UTC))
    await service.receive("deploys", headers, body)


async def work(dsn: str, password: str, numbers: list[int], answers: Connection) -> None:
    """Accept requests in order, and send the number of each one that was answered."""
    async with Database(dsn, password, size=3, application="hook-worker") as database:
        service, worker = make_services(database)
        answers.send(-1)

        async def deliver() -> None:
            while True:
                try:
                    await worker.tick()
                    await database.execute(ANSWER)
                except (Unavailable, OutcomeUnknown):
                    await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as tasks:
            delivery = tasks.create_task(deliver())
            for number in numbers:
                try:
                    await accept(service, number)
                except (Unavailable, OutcomeUnknown, RateLimited):
                    await asyncio.sleep(0.02)  # the program repeats it later
                    continue
                answers.send(number)
            delivery.cancel()


async def finish(database: Database) -> None:
    """Deliver what waits until nothing is open."""
    _, worker = make_services(database)
    deadline = time.monotonic() + 60
    while await TriggerStore(database).count_open():
        assert time.monotonic() < deadline
        await worker.tick()
        await database.execute(ANSWER)


def run_worker(dsn: str, password: str, numbers: list[int], answers: Connection) -> None:
    """Accept requests until killed: the main function of a child process."""
    asyncio.run(work(dsn, password, numbers, answers))
