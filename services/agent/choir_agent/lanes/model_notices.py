"""What a user is told while models do not answer: a wait, a fallback, and the end of both."""

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.log.session_state import JobState, TurnState
from choir_common.wire.events import CoreReported, FallbackChanged, Reply
from choir_models.fallback import NamedModel
from choir_models.model import ModelFailed


class ModelNotices:
    """Notices about models, each sent once."""

    def __init__(self, arbiter: Arbiter) -> None:
        self._arbiter = arbiter
        self._waiting_jobs: set[str] = set()

    def tell_of_wait(self, work: TurnState | JobState, pause_s: float) -> None:
        """Tell the user once per turn or job that a rate limit delays it."""
        # Read the current state: another wait of the same work may have sent the notice already.
        if not (self._arbiter.state.find_work(work.turn_id) or work).noticed:
            self._notify(
                work,
                "The model provider limits my request rate; I will try again in "
                f"{max(1, round(pause_s))} s.",
            )

    def tell_of_outage(self, work: TurnState | JobState, text: str) -> None:
        """Report once that a core job waits for its model."""
        if isinstance(work, JobState) and work.turn_id not in self._waiting_jobs:
            self._waiting_jobs.add(work.turn_id)
            self._report(work, "waiting for the model", text)

    def tell_of_answer(
        self,
        work: TurnState | JobState,
        *,
        first: NamedModel,
        used: NamedModel,
        failure: ModelFailed | None,
    ) -> None:
        """Tell the user of the first answer by another model, and when the lane's own is back."""
        if isinstance(work, JobState) and work.turn_id in self._waiting_jobs:
            self._waiting_jobs.discard(work.turn_id)
            self._report(work, "the model answers again", "the work goes on")
        was_told = first.name in self._arbiter.state.fallbacks
        if used == first and was_told:
            self._arbiter.commit(work.lane, FallbackChanged(model=first.name), more_follows=True)
            self._notify(work, f"The model {first.config.model} answers again; I use it now.")
        elif used != first and not was_told:
            changed = FallbackChanged(model=first.name, fallback=used.name)
            self._arbiter.commit(work.lane, changed, more_follows=True)
            reason = f" ({failure.message.rstrip('. ')})" if failure else ""
            self._notify(
                work,
                f"The model {first.config.model} does not answer{reason}. I use "
                f"{used.config.model} until it does.",
            )

    def _notify(self, work: TurnState | JobState, text: str) -> None:
        notice = Reply(turn_id=work.turn_id, dm=work.dm, text=text, kind="notice")
        self._arbiter.commit(work.lane, notice)

    def _report(self, job: JobState, phase: str, focus: str) -> None:
        report = CoreReported(
            job_id=job.turn_id,
            job_name=job.name,
            kind="progress",
            body={"phase": phase, "focus": focus},
        )
        self._arbiter.commit(job.lane, report)
