"""Update of an agent: build its image and, if it runs with another one, restart it with the new image.

An agent that does not come up with the new image is started with the previous one again.
"""

import asyncio

import structlog

from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _
from choir_common.wire.operations import AgentOutcome, Outcome, ToolChanges
from choir_control.agents.sessions.record import REASON_ROLLBACK, REASON_UPDATE, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.images.build_service import BuildResult, ImageBuildService
from choir_control.images.builder import ProgressReporter, SessionImage
from choir_control.images.image_store import ImageStore
from choir_control.images.tool_check import compare_tools

log = structlog.get_logger("choir.rollout")

START_TIMEOUT_S = 45.0
LOOK_S = 0.2


class AgentUpdater:
    """Service that updates one agent at a time."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        build_service: ImageBuildService,
        image_store: ImageStore,
        sessions: SessionStore,
        starter: SessionStarter,
        stopper: SessionStopper,
    ) -> None:
        self._configuration = configuration
        self._build_service = build_service
        self._image_store = image_store
        self._sessions = sessions
        self._starter = starter
        self._stopper = stopper

    async def build(self, agent_id: str, report: ProgressReporter) -> AgentOutcome:
        """Build the image only; raises the errors of `ImageBuildService.build`."""
        build = await self._build_service.build(agent_id, report)
        return _outcome(
            "built" if build.is_new else "skipped", build, "" if build.is_new else _("up to date")
        )

    async def update(self, agent_id: str, report: ProgressReporter) -> AgentOutcome:
        """Build the image, and restart the agent if it runs with another one.

        Raises the errors of the build and of the checks; nothing has been stopped then.
        """
        # read first: the build replaces the current image
        before = await asyncio.to_thread(self._image_store.get_current, agent_id)
        build = await self._build_service.build(agent_id, report)
        live = await self._sessions.find_live(agent_id)
        if live is None or live.status == "stopping":
            await self._update_suspended(agent_id, SessionImage(build.image))
            tools = await asyncio.to_thread(compare_tools, before, build.image)
            outcome: Outcome = "built" if build.is_new else "skipped"
            return _outcome(outcome, build, _("it is not running"), tools)
        if self._image_store.running_version(agent_id) == build.image.version:
            return _outcome("skipped", build, _("up to date"))
        # an agent that could not be started again must not be stopped
        await self._starter.check(agent_id, live.bindings, SessionImage(build.image))
        report.progress(f"stopping {agent_id}", 0.8)
        await self._stopper.stop(agent_id, REASON_UPDATE)
        report.progress(
            _("starting {agent_id} with {image_version}").format(
                agent_id=agent_id, image_version=build.image.version.image_version
            ),
            0.9,
        )
        try:
            await self._start(agent_id, live, SessionImage(build.image))
        except ChoirError as error:
            report.output(_("it did not start: {message}").format(message=error.message))
            back = live.image or (SessionImage(before) if before else None)
            return await self._roll_back(agent_id, live, back, build, error)
        report.progress(
            _("{agent_id} runs with {image_version}").format(
                agent_id=agent_id, image_version=build.image.version.image_version
            ),
            1.0,
        )
        ran = live.image.image if live.image else before
        tools = await asyncio.to_thread(compare_tools, ran, build.image)
        if tools and str(tools):
            report.output(f"tools: {tools}")
        return _outcome("redeployed", build, "", tools)

    async def update_or_say(self, agent_id: str, report: ProgressReporter) -> AgentOutcome:
        """Update one agent of several; return an error as its outcome, so that the others continue."""
        try:
            if not self._build_service.sources(agent_id):
                return AgentOutcome(
                    agent_id=agent_id, outcome="skipped", reason=_("it has no repository")
                )
            return await self.update(agent_id, report)
        except ChoirError as error:
            return AgentOutcome(agent_id=agent_id, outcome="failed", reason=error.message)
        except Exception:  # the outermost handler of one agent: the others must continue
            log.exception("update failed", agent=agent_id)
            return AgentOutcome(
                agent_id=agent_id, outcome="failed", reason=_("internal error; see choird's log")
            )

    async def _update_suspended(self, agent_id: str, image: SessionImage) -> None:
        """Make a suspended session resume with the new image."""
        left_open = await self._sessions.find_unfinished(agent_id)
        if left_open is None or left_open.status != "suspended" or left_open.image == image:
            return
        if await self._sessions.set_image(left_open.session_id, image) and image.image:
            # record it, so that cleanup keeps it until the next start
            self._image_store.set_running(agent_id, image.image.version)

    async def _start(self, agent_id: str, before: SessionRow, image: SessionImage) -> None:
        """Start an agent with its bindings and wait for its handshake."""
        row = await self._starter.restart(agent_id, before.bindings, image)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while True:
                    now = await self._sessions.get(row.session_id)
                    if now is not None and now.status == "active":
                        return
                    if now is None or now.epoch != row.epoch or now.status != "starting":
                        break
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise Unavailable(
                _("{agent_id} was not ready within {start_timeout_s:g} s.").format(
                    agent_id=agent_id, start_timeout_s=START_TIMEOUT_S
                )
            ) from None
        raise Unavailable(
            _("{agent_id} exited during its start; see its log.").format(agent_id=agent_id)
        )

    async def _roll_back(
        self,
        agent_id: str,
        live: SessionRow,
        before: SessionImage | None,
        build: BuildResult,
        error: ChoirError,
    ) -> AgentOutcome:
        """Start the agent with its previous image, if that is known, and return the outcome."""
        why = _("the new image did not start: {message}").format(message=error.message)
        if before is None or before.image == build.image:
            return _outcome("failed", build, why)
        await self._stopper.stop(agent_id, REASON_ROLLBACK)
        if before.image is not None:
            # the next start of the agent must not use the failed image either
            await asyncio.to_thread(self._image_store.set_current, before.image)
        try:
            await self._start(agent_id, live, before)
        except ChoirError as again:
            return _outcome(
                "failed",
                build,
                _("{why} The previous image did not start either: {message}").format(
                    why=why, message=again.message
                ),
            )
        now = before.image.version.image_version if before.image else _("the default identity")
        return _outcome(
            "failed", build, _("{why} It runs with {now} again.").format(why=why, now=now)
        )


def _outcome(
    outcome: Outcome, build: BuildResult, reason: str, tools: ToolChanges | None = None
) -> AgentOutcome:
    version = build.image.version
    return AgentOutcome(
        agent_id=version.agent_id,
        outcome=outcome,
        image_version=version.image_version,
        global_repo_commit=version.global_repo_commit,
        agent_repo_commit=version.agent_repo_commit,
        reason=reason,
        tools=tools if tools and str(tools) else None,
        warnings=build.warnings,
    )
