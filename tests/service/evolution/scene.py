"""Control's approvals and what carries them out, without its doors; and an adversary between two awaits."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from choir_common.clock import SystemClock
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalKind, ApprovalRequest, ResourceBindings
from choir_control.approvals.proposals.proposal_type import StaleProposal
from choir_control.approvals.service import ApprovalService
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.configuration.current import ConfigService
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.log.leases.store import Lease
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.wiring.approvals import ProposalServices
from tests.support.approvals import IdleProposalRunner, RecordingRedeployer, SilentOutbox
from tests.support.repositories import GitRepository

SESSION = "ses_1"
BINDINGS = ResourceBindings(workspace="main", llm="default", dm="console")
LEASE = Lease(SESSION, "main", 1, b"", BINDINGS)
SKILL: JsonObject = {
    "spec": {
        "name": "wash",
        "description": "Wash.",
        "initial_state": "go",
        "states": {"go": {"terminal": True}},
        "max_steps": 3,
    },
    "reason": "because",
}
PATCH: JsonObject = {"patch": {"budgets": {"max_core_jobs": 3}}, "reason": "fewer"}


@dataclass
class FileApplier:
    """Puts config.json in force without control's staging."""

    configuration: ConfigService
    config_file: Path

    async def apply(self, expected: Config) -> int:
        if Config.model_validate_json(self.config_file.read_bytes()) != expected:
            raise StaleProposal("config.json has been edited since the plan was made.")
        return (await self.configuration.put_in_force(self.configuration.read())).version


class SteppedClock(SystemClock):
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


@dataclass
class Scene:
    """One home; `workshop()` is control after a restart."""

    home: Path
    database: Database
    remote: GitRepository
    configuration: ConfigService
    redeployer: RecordingRedeployer = field(default_factory=RecordingRedeployer)
    calls: int = 0
    clock: SteppedClock = field(default_factory=SteppedClock)

    @property
    def config_file(self) -> Path:
        return self.home / "config.json"

    def config(self) -> dict[str, Any]:
        """Return what the file says."""
        read: dict[str, Any] = json.loads(self.config_file.read_bytes())
        return read

    @property
    def renewed(self) -> list[str]:
        return self.redeployer.agents

    @property
    def approvals(self) -> ApprovalStore:
        return ApprovalStore(self.database, self.configuration)

    def desk(self) -> ApprovalService:
        return ApprovalService(
            self.approvals,
            signal_locks=SignalLocks(),
            notifier=Notifier(),
            outbox=SilentOutbox(),
            proposals=IdleProposalRunner(),
        )

    def workshop(self) -> ProposalServices:
        return ProposalServices(
            home=self.home,
            config_file=self.config_file,
            environment=os.environ,
            database=self.database,
            configuration=self.configuration,
            approvals=self.approvals,
            clock=self.clock,
            signal_locks=SignalLocks(),
            notifier=Notifier(),
            outbox=SilentOutbox(),
            config_applier=FileApplier(self.configuration, self.config_file),  # type: ignore[arg-type]
            redeployer=self.redeployer,  # type: ignore[arg-type]
        )

    async def ask(
        self, kind: ApprovalKind, payload: JsonObject, workshop: ProposalServices | None = None
    ) -> str:
        """Ask as the agent would; return the request's id."""
        self.calls += 1
        request = ApprovalRequest(request_type=kind, call_id=f"c{self.calls}", payload=payload)
        return (await (workshop or self.workshop()).intake.request(LEASE, request)).approval_id

    async def approve(self, kind: ApprovalKind, payload: JsonObject) -> str:
        """Ask, and have a human approve what is shown."""
        approval = await self.ask(kind, payload)
        shown = await self.found(approval)
        await self.desk().decide(approval, "approved", "operator", shown.digest)
        return approval

    async def carried_out(self, kind: ApprovalKind, payload: JsonObject) -> Approval:
        """Ask, approve, carry out; return how it ended."""
        approval = await self.approve(kind, payload)
        await self.workshop().worker.run_pending()
        return await self.found(approval)

    async def worked_off(self, approval: str) -> Approval:
        """Work until the request has come to an end, as control does every few seconds.

        What is unavailable for a moment (a child process of git that is still ending) is tried again.
        """
        workshop = self.workshop()
        async with asyncio.timeout(60):
            while (done := await self.found(approval)).state not in ("applied", "failed"):
                await workshop.worker.run_pending()
        return done

    async def found(self, approval: str) -> Approval:
        found = await self.approvals.get(approval)
        assert found is not None
        return found

    async def said(self) -> list[str]:
        """Return the outcome that the session was notified about."""
        rows = await self.database.fetch(
            "SELECT body ->> 'text' AS text FROM choir_control.signals "
            "WHERE body ->> 'kind' = 'inject' ORDER BY seq"
        )
        return [row["text"] for row in rows]

    def propose(
        self, files: dict[str, str | bytes], slug: str = "new", base: str = "main"
    ) -> JsonObject:
        """Push a proposal that holds exactly these files; return the request."""
        branch, keep = f"proposal/{SESSION}/{slug}", self.remote.git("rev-parse", "main")
        parent = self.remote.git("rev-parse", base)
        tree = self.remote.git("rev-parse", f"{self.remote.commit(files)}^{{tree}}")
        commit = self.remote.git("commit-tree", tree, "-p", parent, "-m", "p")
        self.point("main", keep)
        self.point(branch, commit)
        return {"branch": branch, "commit": commit, "reason": "better"}

    def point(self, branch: str, commit: str) -> None:
        self.remote.git("update-ref", f"refs/heads/{branch}", commit)

    def files(self, branch: str = "main") -> list[str]:
        return self.remote.git("ls-tree", "-r", "--name-only", branch).splitlines()


async def make_scene(database: Database, root: Path) -> Scene:
    """Make a home, a repository with two files, and a session that is active."""
    await database.execute(
        """
        INSERT INTO choir_control.sessions
            (session_id, agent_id, status, epoch, head_hash, workspace, llm, dm, gateway)
        VALUES ($1, 'main', 'active', 1, '', 'main', 'default', 'console', 'console')
        """,
        SESSION,
    )
    remote, home = GitRepository(root / "remote.git"), root / "home"
    remote.commit({"README.md": "one\n", "skills/old.json": "{}\n"})
    home.mkdir()
    defaults = {"workspace": "main", "llm": "default", "dm": "console", "git_identity": "bot"}
    document = {
        "agents": {
            "main": {"defaults": defaults, "repo": {"url": str(remote.path), "ref": "main"}}
        },
        "workspaces": {"main": {"path": str(home / "w")}},
        "models": {"default": {"model": "m", "endpoint": "http://127.0.0.1:1/v1"}},
        "gateways": {"console": {"type": "console"}},
        "dms": {"console": {"gateway": "console", "user_id": "operator", "admin": True}},
        "git_identities": {"bot": {"name": "Bot", "email": "bot@example.org", "secret": "s"}},
    }
    (home / "config.json").write_text(json.dumps(document))
    configuration = ConfigService(home / "config.json", None, ConfigVersionStore(database))
    await configuration.put_in_force(configuration.read())
    return Scene(home, database, remote, configuration)


class Between:
    """A coroutine with an action at its n-th wait: an outside change, or the process's end."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, deed: Callable[[], Any]) -> None:
        self._work = work
        self._at = at
        self._deed = deed
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            try:
                waited = step(given)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._at:
                self._deed()
            try:
                given = yield waited
                step = self._work.send
            except BaseException as error:  # handed on to the coroutine, like any awaited error
                given, step = error, self._work.throw


async def cut_off(work: Coroutine[Any, Any, Any], at: int) -> bool:
    """Drop a piece of work at its n-th wait; return whether it got that far."""

    def end() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def run() -> None:
        await Between(work, at, end)

    try:
        await asyncio.create_task(run())
    except asyncio.CancelledError:
        return True
    return False
