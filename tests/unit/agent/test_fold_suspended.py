"""A stop is no crash: it uses up none of the attempts that an open core job has."""

from choir_common.wire.events import SessionResumed, SessionSuspended
from tests.unit.agent.told_session import ToldSession


def test_only_crashes_count_against_a_core_job() -> None:
    session = ToldSession()
    session.start_job("read")
    for epoch in range(2, 7):
        session.append("session", SessionSuspended(reason="asked"))
        assert session.state.stopped and session.state.has_open_work
        session.append("session", SessionResumed(epoch=epoch))
    assert session.state.jobs[0].resumes == 0 and not session.state.stopped
    session.append("session", SessionResumed(epoch=7))
    assert session.state.jobs[0].resumes == 1
