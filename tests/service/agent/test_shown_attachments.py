"""What a person is shown of the files that a mail sends is what the mail contains, or nothing is sent."""

import email
import email.policy
import hashlib
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from choir_agent.provenance.data_flow import INTERNAL, DataFlow
from choir_agent.tools.attached_files import (
    MAX_ATTACHED_BYTES,
    MAX_SHOWN_CHARS,
    describe_attachments,
)
from choir_agent.tools.workspace import Workspace
from choir_common.approvals import request_lines
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalResponse
from choir_common.wire.signals import ApprovalResolvedSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.mail_account import MAIL, certificate, make_context, trusted, workspace
from tests.service.agent.running_agent import running_agent
from tests.support.mail import PASSWORD, USER, Certificate, SmtpHandler, running_smtp

__all__ = ["certificate", "trusted", "workspace"]

PLAN = "Tea at four.\n"
SHA256 = hashlib.sha256(PLAN.encode()).hexdigest()
CALL: JsonObject = {
    "name": "choir.email.send",
    "arguments": {**MAIL, "attachments": ["plan.txt"]},
}
SCORE: JsonObject = {"rules": [], "otherwise": [{"call": CALL}, {"say": "Done."}]}


def give_account(control: ControlStandIn, postman: SmtpHandler) -> None:
    settings = make_context(postman.port, "tls").settings
    assert settings is not None
    control.bound = {"email": settings.email}
    control.secrets = {"mail": f"{USER}:{PASSWORD}"}
    (control.workspace / "plan.txt").write_text(PLAN)


async def approve(control: ControlStandIn) -> None:
    (call_id,) = control.approvals
    approval_id = control.approvals[call_id].approval_id
    answer: JsonObject = {"approval_id": approval_id, "status": "approved"}
    control.approvals[call_id] = ApprovalResponse.model_validate(answer)
    await control.tell(ApprovalResolvedSignal.model_validate(answer))


def result(control: ControlStandIn) -> ToolResultCommitted:
    (result,) = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    return result


async def play(
    certificate: Certificate, change: Callable[[Path], object]
) -> tuple[ControlStandIn, SmtpHandler]:
    """Have the agent ask about a mail; change its file, then say yes."""
    score = Score.model_validate(SCORE)
    async with (
        running_smtp(certificate, "tls") as postman,
        run_rehearsal(score) as model,
        run_control(model) as control,
    ):
        give_account(control, postman)
        async with running_agent(control):
            await control.say("Send the plan.")
            await control.until(lambda: bool(control.approvals))
            change(control.workspace / "plan.txt")
            await approve(control)
            await control.replied()
        return control, postman


async def test_the_question_shows_size_hash_and_text_and_the_mail_contains_the_same(
    certificate: Certificate,
) -> None:
    control, postman = await play(certificate, Path.exists)
    (request,) = control.approval_requests.values()
    shown = {"path": "plan.txt", "bytes": len(PLAN), "sha256": SHA256, "text": PLAN}
    assert request.payload["attachments"] == [shown]
    lines = "\n".join(line.text for line in request_lines("call", request.payload, {}))
    assert SHA256 in lines
    assert "Tea at four." in lines
    (envelope,) = postman.received
    assert isinstance(envelope.content, bytes)
    message = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    (attached,) = message.iter_attachments()
    content = attached.get_content()
    assert hashlib.sha256(content.encode()).hexdigest() == SHA256


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("The diary.\n"),
        lambda path: path.write_text("Tea at five.\n"),
        lambda path: (
            path.with_name("other.txt").rename(path)
            if path.with_name("other.txt").write_text("The diary.")
            else None
        ),
    ],
    ids=["other content", "other content of the same size", "another file in its place"],
)
async def test_a_file_that_changed_after_the_question_is_not_sent(
    certificate: Certificate, change: Callable[[Path], object]
) -> None:
    control, postman = await play(certificate, change)
    assert postman.received == []
    assert (result(control).status, result(control).output["code"]) == (
        "error",
        "changed_after_question",
    )


async def test_after_a_restart_a_changed_file_is_refused_and_an_equal_one_is_sent(
    certificate: Certificate,
) -> None:
    for text, sent in ((PLAN, 1), ("The diary.\n", 0)):
        async with (
            running_smtp(certificate, "tls") as postman,
            run_rehearsal(Score.model_validate(SCORE)) as model,
            run_control(model) as control,
        ):
            give_account(control, postman)
            async with running_agent(control):
                await control.say("Send the plan.")
                await control.until(lambda: bool(control.approvals))
            (control.workspace / "plan.txt").write_text(text)
            control.next_epoch()
            await approve(control)
            async with running_agent(control):
                await control.replied()
            assert len(postman.received) == sent
            if not sent:
                assert result(control).output["code"] == "changed_after_question"


def describe(workspace: Workspace, *paths: str) -> list[JsonObject]:
    arguments: JsonObject = {"attachments": [*paths]}
    described = describe_attachments(workspace, DataFlow(sends="mail"), arguments)
    return [one for file in described if isinstance(one := file.as_json(), dict)]


def test_a_long_text_is_shown_by_its_beginning_and_other_files_by_size_and_hash(
    workspace: Workspace,
) -> None:
    (workspace.root / "long.txt").write_text("x" * (MAX_SHOWN_CHARS + 1))
    (workspace.root / "data.bin").write_bytes(b"\x00\xff")
    (workspace.root / "nul.txt").write_bytes(b"a\x00b")
    long, data, nul, missing = describe(workspace, "long.txt", "data.bin", "nul.txt", "no.txt")
    assert (long["begins_with"], long["bytes"]) == ("x" * MAX_SHOWN_CHARS, MAX_SHOWN_CHARS + 1)
    assert {*data} == {*nul} == {"path", "bytes", "sha256"}
    assert {*missing} == {"path", "error"}


def test_files_that_are_too_large_to_be_sent_are_not_read_to_their_end(
    workspace: Workspace,
) -> None:
    with (workspace.root / "large").open("wb") as file:
        file.truncate(MAX_ATTACHED_BYTES + 1)
    assert describe(workspace, "large") == [{"path": "large", "error": "too_large"}]


def test_calls_that_send_no_mail_are_shown_without_files(workspace: Workspace) -> None:
    (workspace.root / "a.txt").write_text("x")
    assert describe_attachments(workspace, INTERNAL, {"attachments": ["a.txt"]}) == ()
