"""Sending mail through a real server: what arrives, and every way it can fail."""

import asyncio
import email
import email.policy
import os
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest

from choir_agent.tools.builtin.email_check import EmailCheckTool
from choir_agent.tools.builtin.email_receive import EmailReceiveTool
from choir_agent.tools.builtin.email_send import EmailSendTool
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.json_schema import find_violations
from choir_common.wire.config import MailSecurity
from choir_common.wire.model import JsonObject
from tests.service.agent.mail_account import MAIL, certificate, make_context, trusted, workspace
from tests.support.mail import (
    PASSWORD,
    USER,
    Certificate,
    make_certificate,
    running_smtp,
)

__all__ = ["certificate", "trusted", "workspace"]


async def send(workspace: Workspace, context: CallContext, **more: object) -> JsonObject:
    """Send a mail as the arbiter would: its arguments fit the schema."""
    tool = EmailSendTool(workspace)
    arguments: JsonObject = {**MAIL, **more}  # type: ignore[dict-item]
    assert not find_violations(tool.manifest.llm.parameters, arguments)
    return (await tool.run(context, arguments)).output


async def fails(workspace: Workspace, context: CallContext, **more: object) -> ToolFailed:
    """Return how sending fails; the account's password is in none of its words."""
    with pytest.raises(ToolFailed) as caught:
        await send(workspace, context, **more)
    assert PASSWORD not in str(caught.value.error_output())
    return caught.value


@pytest.mark.parametrize("security", ["tls", "starttls", "none"])
async def test_a_mail_arrives_with_its_attachment_and_blind_copies_stay_blind(
    security: MailSecurity, certificate: Certificate, workspace: Workspace
) -> None:
    (workspace.root / "plan.txt").write_text("one\n.two\n")
    (workspace.root / "data.bin").write_bytes(bytes(range(256)))
    async with running_smtp(certificate, security) as postman:
        told = await send(
            workspace,
            make_context(postman.port, security),
            to=["Ann Ångström <ann@choir.test>"],
            cc=["bob@choir.test"],
            bcc=["eve@choir.test", "ann@choir.test"],
            subject="Tee für zwei ☕",
            text="Grüße\n.\nnot the end\n",
            html="<p>Grüße</p>",
            attachments=["plan.txt", "data.bin"],
            in_reply_to="<abc@choir.test>",
        )
    [envelope] = postman.received
    assert envelope.mail_from == USER
    assert envelope.rcpt_tos == ["ann@choir.test", "bob@choir.test", "eve@choir.test"]
    assert told["recipients"] == envelope.rcpt_tos
    assert isinstance(envelope.content, bytes)
    message = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert message["Subject"] == "Tee für zwei ☕" and "eve" not in envelope.content.decode()
    assert "Ann Ångström" in message["To"] and message["In-Reply-To"] == "<abc@choir.test>"
    body = message.get_body(("plain",))
    assert body is not None and body.get_content().split() == ["Grüße", ".", "not", "the", "end"]
    files = {part.get_filename(): part.get_content() for part in message.iter_attachments()}
    assert files == {"plan.txt": "one\n.two\n", "data.bin": bytes(range(256))}


async def test_the_message_id_is_made_of_the_call_so_a_copy_is_recognised(
    certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls") as postman:
        context = make_context(postman.port, "tls")
        first, again = await send(workspace, context), await send(workspace, context)
        other = await send(workspace, replace(context, call_id="call_2"))
    assert first["message_id"] == again["message_id"] != other["message_id"]
    content = postman.received[0].content
    assert isinstance(content, bytes) and str(first["message_id"]).encode() in content


@pytest.mark.parametrize(
    "more",
    [
        {"subject": "Tea\r\nBcc: eve@choir.test"},
        {"subject": "Tea\nX: y"},
        {"to": ["ann@choir.test\r\nDATA"]},
        {"to": ["ann@choir.test>\r\nRCPT TO:<eve@choir.test"]},
        {"to": ["Ann\r\nBcc: eve@choir.test <ann@choir.test>"]},
        {"to": ["ann@choir.test, eve@choir.test"]},
        {"cc": ["ann@choir.test> SIZE=1"]},
        {"bcc": ["not an address"]},
        {"to": ["ann@"]},
        {"to": ["@choir.test"]},
        {"to": []},
        {"subject": "Tea\u2028Bcc: eve@choir.test"},
        {"subject": "Tea\x00"},
    ],
)
async def test_a_header_cannot_be_slipped_in(
    more: JsonObject, certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls") as postman:
        failed = await fails(workspace, make_context(postman.port, "tls"), **more)
    assert failed.kind == "bad_input" and not postman.received


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("../secret.txt", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("out", "outside_workspace"),
        ("missing.txt", "not_found"),
        ("fifo", "not_a_file"),
        (".", "not_a_file"),
        ("huge.bin", "too_large"),
    ],
)
async def test_only_files_of_the_workspace_are_attached_and_only_so_many(
    path: str, kind: str, certificate: Certificate, workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (workspace.root / "out").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(workspace.root / "fifo")
    with (workspace.root / "huge.bin").open("wb") as huge:
        huge.truncate(18_000_001)
    async with running_smtp(certificate, "tls") as postman:
        failed = await fails(workspace, make_context(postman.port, "tls"), attachments=[path])
    assert failed.kind == kind and not postman.received


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("550 5.1.1 no such user", "unknown_recipient"),
        ("551 not local", "unknown_recipient"),
        ("552 5.2.2 mailbox full", "mailbox_full"),
        ("452 4.2.2 over quota", "mailbox_full"),
        ("450 4.2.0 greylisted", "try_later"),
        ("554 5.7.1 relay denied", "unknown_recipient"),
    ],
)
async def test_one_refused_recipient_keeps_the_mail_from_all(
    answer: str, kind: str, certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "starttls") as postman:
        postman.rcpt_answers["nobody@choir.test"] = answer
        to = ["ann@choir.test", "nobody@choir.test"]
        failed = await fails(workspace, make_context(postman.port, "starttls"), to=to)
    assert failed.kind == kind and not postman.received
    assert "nobody@choir.test" in failed.message and answer[4:] in failed.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("552 5.2.2 mailbox full", "mailbox_full"),
        ("552 5.3.4 message too big", "too_large"),
        ("554 5.7.1 looks like spam", "refused"),
        ("451 4.3.0 try again", "try_later"),
    ],
)
async def test_a_mail_refused_at_its_end_was_not_sent(
    answer: str, kind: str, certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls") as postman:
        postman.data_answer = answer
        failed = await fails(workspace, make_context(postman.port, "tls"))
    assert failed.kind == kind and "Nothing was sent" in failed.message


async def test_a_mail_larger_than_the_server_takes_is_not_even_begun(
    certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls", size_limit=1000) as postman:
        failed = await fails(workspace, make_context(postman.port, "tls"), text="x" * 2000)
    assert failed.kind == "too_large" and not postman.received


async def test_a_connection_that_dies_after_the_message_leaves_the_outcome_unknown(
    certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls") as postman:
        postman.drop_after_data = True
        failed = await fails(workspace, make_context(postman.port, "tls"))
    assert failed.kind == "outcome_unknown" and len(postman.received) == 1
    content = postman.received[0].content
    assert isinstance(content, bytes) and str(failed.details["message_id"]).encode() in content


async def test_a_cancelled_send_leaves_no_connection_behind(
    certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "tls") as postman:
        postman.hang_after_data = True
        sending = asyncio.create_task(send(workspace, make_context(postman.port, "tls")))
        async with asyncio.timeout(60):
            while not postman.received:
                await asyncio.sleep(0.02)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await postman.left.wait()


@pytest.mark.parametrize("security", ["tls", "starttls", "none"])
async def test_a_wrong_password_is_told_without_being_shown(
    security: MailSecurity, certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, security) as postman:
        context = make_context(postman.port, security, secret=f"{USER}:wrong-password")
        failed = await fails(workspace, context)
    assert failed.kind == "auth_failed" and "wrong-password" not in str(failed.error_output())


async def test_a_server_without_starttls_gets_neither_password_nor_mail(
    certificate: Certificate, workspace: Workspace
) -> None:
    async with running_smtp(certificate, "none") as postman:
        failed = await fails(workspace, make_context(postman.port, "starttls"))
    assert failed.kind == "tls_failed" and not postman.received


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_a_certificate_for_another_name_or_of_an_unknown_authority_is_refused(
    security: MailSecurity, tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_certificate(tmp_path, names="DNS:elsewhere.test")
    async with running_smtp(other, security) as postman:
        context = make_context(postman.port, security)
        unknown = await fails(workspace, context)
        monkeypatch.setenv("SSL_CERT_FILE", str(other.cert))
        misnamed = await fails(workspace, context)
    assert {unknown.kind, misnamed.kind} == {"tls_failed"} and not postman.received


async def test_nobody_there_and_nonsense_there_are_told_apart_from_a_refusal(
    workspace: Workspace,
) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert (await fails(workspace, make_context(port, "none"))).kind in ("refused", "unreachable")
    assert (await fails(workspace, make_context(port, "tls"))).kind == "tls_failed"
    server.close()
    await server.wait_closed()
    gone = await fails(workspace, make_context(port, "none"))
    assert gone.kind == "unreachable" and "Nothing was sent" in gone.message
    nowhere = make_context(port, "tls", host="mail.invalid")
    assert (await fails(workspace, nowhere)).kind == "unreachable"


@pytest.mark.parametrize("host", ["192.0.2.1", "mail.example.org", "::ffff:192.0.2.1"])
async def test_an_open_connection_to_another_machine_is_never_made(
    host: str, workspace: Workspace
) -> None:
    context = make_context(25, "none", host=host)
    assert (await fails(workspace, context)).kind == "not_configured"


@pytest.mark.parametrize("secret", ["", "no-colon", ":no-user", "no-password:"])
async def test_a_missing_or_malformed_secret_is_told_without_being_shown(
    secret: str, workspace: Workspace
) -> None:
    failed = await fails(workspace, make_context(1, "none", secret=secret))
    assert failed.kind == "not_configured" and (not secret or secret not in failed.message)


async def test_without_an_account_the_tools_say_what_is_missing(workspace: Workspace) -> None:
    context = CallContext("call_1", "edge")
    for tool in (EmailSendTool(workspace), EmailCheckTool(), EmailReceiveTool(workspace)):
        with pytest.raises(ToolFailed, match="email_accounts"):
            await tool.run(context, MAIL if isinstance(tool, EmailSendTool) else {})
