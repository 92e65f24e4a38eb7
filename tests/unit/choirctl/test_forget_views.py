"""The lines about an erasure: what is erased from where, and what the agent does then."""

from datetime import UTC, datetime

from choir_common.wire.memory_forget import ConversationMessage, ForgetReport, ForgetResult
from choirctl.output.forget_views import forget_lines

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_result(**fields: object) -> ForgetResult:
    return ForgetResult.model_validate(
        {"erased": False, "digest": "0" * 64, "documents": (), **fields}
    )


def test_what_memory_does_not_have_is_counted_in_the_conversation_alone() -> None:
    message = ConversationMessage(at=NOON, sender="user", text="My number is 4711.")
    report = ForgetReport(
        agent_id="main",
        memory=make_result(),
        conversation="summary",
        messages=(message,),
        message_count=1,
        logs=("s1",),
        restarts=True,
        earlier_until=NOON,
    )
    lines = forget_lines(report)
    assert lines[0] == "To erase from the conversation: 1 message."
    assert lines[1].endswith("user: My number is 4711.")
    assert lines[2] == "To erase except for hashes: logs, messages and received files of 1 session."
    assert (
        lines[3] == "The conversation starts again with nothing: it has no reference summary yet."
    )
    assert lines[4] == "Agent main discards open work and starts again."
    assert lines[5].startswith("Earlier sessions, until ")


def test_the_result_counts_documents_and_what_is_active_again() -> None:
    memory = make_result(erased=True, counts={"note": 2}, total=2, restored=1)
    lines = forget_lines(ForgetReport(agent_id="main", memory=memory))
    assert lines == ["Erased from memory: 2 documents (note 2).", "Active again: 1 older document."]


def test_nothing_at_all_is_said_with_a_number() -> None:
    report = ForgetReport(agent_id="main", memory=make_result())
    assert forget_lines(report) == ["To erase from memory: 0 documents."]
