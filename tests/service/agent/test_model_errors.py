"""However a provider misbehaves, the user is told and the session lives on."""

import asyncio
import contextlib
import email.utils
import gzip
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from choir_common.wire.rpc import ModelFailure
from choir_common.wire.signals import CancelSignal
from choir_models.output_limits import CUT
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.rude_provider import (
    FINE,
    Behaviour,
    Request,
    completion,
    rude_provider,
)
from tests.service.agent.running_agent import agent_process, running_agent

KEY = "sk-canary-0123456789abcdefghij"
CALLED = "I could not get an answer from the model rehearsal at http://127.0.0.1:"


@dataclass(frozen=True)
class Way:
    """One way to misbehave, and what the user hears."""

    behave: Behaviour
    kind: str
    said: str
    notices: int = 0


def error(status: int, body: object, said: str, **headers: str) -> Way:
    """Return a way that answers an error status."""

    async def behave(request: Request) -> None:
        await request.respond(status, body, **headers)

    return Way(behave, "error", said)


def answer(body: object, said: str, kind: str = "error") -> Way:
    """Return a way that answers 200 with this body."""

    async def behave(request: Request) -> None:
        await request.respond(200, body)

    return Way(behave, kind, said)


def limited_once(**headers: str) -> Way:
    """Return a way that limits the rate once."""

    async def behave(request: Request) -> None:
        if request.nth == 1:
            await request.respond(429, {"error": {"message": "slow down"}}, **headers)
        else:
            await request.say("after the wait")

    return Way(behave, "answer", "after the wait", notices=1)


def down_for(*statuses: int) -> Way:
    """Return a way that answers these statuses once each, 0 closing the connection, and then recovers."""

    async def behave(request: Request) -> None:
        if request.nth > len(statuses):
            await request.say("back again")
        elif statuses[request.nth - 1]:
            await request.respond(statuses[request.nth - 1], b"")

    return Way(behave, "answer", "back again")


def raw(data: bytes, said: str) -> Way:
    """Return a way that writes these bytes and closes."""

    async def behave(request: Request) -> None:
        await request.send(data)

    return Way(behave, "error", said)


def calls(*tool_calls: object, said: str = "recovered", kind: str = "answer") -> Way:
    """Return a way that proposes these calls once, and recovers when it hears of them."""

    async def behave(request: Request) -> None:
        if request.answered_calls or request.nth > 1:
            await request.say("recovered")
        else:
            await request.say(None, "tool_calls", tool_calls=[*tool_calls])

    return Way(behave, kind, said)


async def hang(request: Request) -> None:
    await asyncio.sleep(30)


async def trickle(request: Request) -> None:
    """Answer within 4 s, with a byte every 0.1 s."""
    body = b" " * 40 + orjson.dumps(completion({"content": "slow but sure"}))
    await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
    for _ in range(40):
        await request.send(b" ")
        await asyncio.sleep(0.1)
    await request.send(body[40:])


async def flood(request: Request) -> None:
    await request.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    for _ in range(40):
        await request.send(b" " * (1 << 20))


async def echo_key(request: Request) -> None:
    said = f"Incorrect API key provided: {request.authorization.removeprefix('bearer ')}"
    await request.respond(401, {"error": {"message": said, "code": "invalid_api_key"}})


async def echo_key_in_words(request: Request) -> None:
    await request.say(f"your key is {KEY}, isn't it?")


def call(name: object, arguments: object) -> dict[str, object]:
    """Return a tool call as it stands in an answer."""
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


CONTEXT = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8"}}
QUOTA = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}
FLAGGED = {"error": {"message": "Your input was flagged", "metadata": {"reasons": ["x"]}}}
FILTERED = {"error": {"code": "content_filter", "message": "filtered"}}
UPSTREAM = {"error": {"code": 502, "message": "down", "metadata": {"provider_name": "Acme"}}}
READ = '{"path": "notes.txt"}'
HEAD = b"HTTP/1.1 200 OK\r\n"

WAYS = {
    "status 500": error(500, {"error": {"message": "boom"}}, "answered 500: boom"),
    "status 502 without a body": error(502, b"", "answered 502"),
    "status 503 in HTML": error(503, b"<html>sorry</html>", "answered 503"),
    "down for a moment": down_for(502, 503, 529, 0),
    "status 408 for a moment": down_for(408, 408),
    "status 409 for a moment": down_for(409, 409),
    "status 504 for a moment": down_for(504, 504),
    "status 408": error(408, {"error": {"message": "too slow"}}, "answered 408: too slow"),
    "status 409": error(409, {"error": {"message": "busy"}}, "answered 409: busy"),
    "status 504": error(504, b"<html>gateway timeout</html>", "answered 504"),
    "status 404": error(404, {"error": {"message": "no such model"}}, "no such model"),
    "status 402": error(402, {"error": {"message": "pay"}}, "no credit left"),
    "status 400": error(400, {"error": {"message": "bad schema"}}, "bad schema"),
    "status 413": error(413, b"too big", "exceeds the model's context window"),
    "status 302": error(302, b"", "answered 302", Location="http://127.0.0.1:9/steal"),
    "status 405": error(405, b"", "probably not the address of an API"),
    "status 410": error(410, {"error": {"message": "retired"}}, "Correct the model's name"),
    "status 418": error(418, {"error": {"message": "odd"}}, "answered 418: odd. Check what"),
    "status 451": error(451, {"error": {"message": "not here"}}, "not here. Check what"),
    "key refused and echoed": Way(echo_key, "error", "refused the API key"),
    "key in an answer": Way(echo_key_in_words, "answer", "your key is [redacted]"),
    "moderation": error(403, FLAGGED, "content filter"),
    "filtered request": error(400, FILTERED, "content filter"),
    "filtered answer": answer(completion({"content": "x"}, "content_filter"), "content filter"),
    "context too long": error(400, CONTEXT, "exceeds the model's context window"),
    "no credit behind a 429": error(429, QUOTA, "no credit left"),
    "limited once, seconds": limited_once(Retry_After="0.02"),
    "limited once, milliseconds": limited_once(Retry_After_Ms="20"),
    "limited once, a date": limited_once(Retry_After=email.utils.formatdate(usegmt=True)),
    "limited once, without a word": limited_once(),
    "limited for an hour": error(429, {}, "requests a wait of 3600 s", Retry_After="3600"),
    "hangs": Way(hang, "error", "sent nothing for 3 s"),
    "trickles": Way(trickle, "answer", "slow but sure"),
    "floods": Way(flood, "error", "exceeds 16 MB"),
    "closes at once": raw(b"", "connection to the provider failed"),
    "closes in the head": raw(HEAD + b"Content-Le", "connection to the provider failed"),
    "closes in the body": raw(HEAD + b"Content-Length: 99\r\n\r\n{", "connection to the provider"),
    "speaks no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "connection to the provider failed"),
    "endless head": raw(HEAD + b"X: " + b"y" * 300_000, "connection to the provider failed"),
    "broken gzip": raw(
        HEAD
        + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"
        + gzip.compress(b"{}")[:-9]
        + b"zz",
        CALLED,
    ),
    "no JSON": answer(b"fine, thanks", "not a chat completion"),
    "HTML": answer(b"<html>hi</html>", "not a chat completion"),
    "half JSON": answer(b'{"choices": [{"mess', "not a chat completion"),
    "bytes that are no text": answer(b'{"choices": "\xff\xfe"}', "not a chat completion"),
    "a hundred thousand brackets": answer(b"[" * 100_000, "not a chat completion"),
    "a list": answer([1, 2], "not a chat completion"),
    "an empty object": answer({}, "contains no choice"),
    "no choices": answer({"choices": []}, "contains no choice"),
    "no message": answer({"choices": [{"message": None}]}, "not a chat completion"),
    "an error with status 200": answer(UPSTREAM, "down | Acme"),
    "an error in the choice": answer(
        {"choices": [{"message": {"content": None}, "error": {"message": "mid-stream"}}]},
        "mid-stream",
    ),
    "no words": answer(completion({"content": "  "}), "returned an empty answer"),
    "a refusal": answer(completion({"content": None, "refusal": "I won't"}), "I won't", "answer"),
    "a cut answer": answer(
        completion({"content": "half a"}, "length"), f"half a\n\n{CUT}", "answer"
    ),
    "lone surrogates": answer(completion({"content": "a\ud800b"}), "not a chat completion"),
    "absurd usage": answer(
        completion({"content": "ok"}, usage={"prompt_tokens": -7, "completion_tokens": "many"}),
        "ok",
        "answer",
    ),
    "a call without a name": calls({"id": None, "function": {}}),
    "a call that is none": calls(None, 7, "x", []),
    "a call of an unknown tool": calls(call("choir_rule_the_world", "{}")),
    "arguments that are no JSON": calls(call("choir_fs_read", "{'path': ")),
    "arguments of the wrong type": calls(call("choir_fs_read", '{"path": 7}')),
    "arguments that are a list": calls(call("choir_fs_read", "[1]")),
    "arguments cut off": calls(call("choir_fs_write", '{"path": "a", "content": "' + "x" * 9000)),
    "huge arguments": calls(call("choir_fs_read", '{"path": "' + "x" * 300_000 + '"}')),
    "calls that are an object": answer(
        completion({"content": "words beside it", "tool_calls": {}}), "words beside it", "answer"
    ),
    "five hundred calls": calls(*[call("choir_no_such", "{}")] * 500),
    "the same id twice": calls(call("choir_fs_read", READ), call("choir_fs_read", READ)),
}


async def test_every_way_to_misbehave_ends_in_a_reply_and_the_next_message_works() -> None:
    behaviours = {word: way.behave for word, way in WAYS.items()}
    async with rude_provider(behaviours) as provider, run_control(provider.endpoint) as control:
        control.model_timeout_ms = 3_000
        control.secret, control.secrets = "model-key", {"model-key": KEY}
        async with agent_process(control) as agent:
            for number, (word, way) in enumerate(WAYS.items()):
                before = len(control.replies())
                await control.say(word, f"inb_{number}_bad")
                replies = (await control.replied(2 * number + 1))[before:]
                assert (replies[-1].kind, replies[-1].answers) == (way.kind, f"inb_{number}_bad"), (
                    word
                )
                assert way.said in replies[-1].text, (word, replies[-1].text)
                assert len(replies) == 1 + way.notices, word
                await control.say("hello", f"inb_{number}_good")
                replies = await control.replied(2 * number + 2)
                assert (replies[-1].kind, replies[-1].text) == ("answer", FINE), word
            assert agent.returncode is None
        written = b"".join(event.model_dump_json().encode() for event in control.events)
        written += (control.root / "agent.log").read_bytes()
    assert set(provider.authorizations) == {f"bearer {KEY}"}
    assert KEY.encode() not in written
    assert KEY[:20].encode() not in written
    assert b"slow down" not in written
    assert len(WAYS) >= 20


async def test_control_is_told_since_when_a_model_does_not_answer_until_it_does() -> None:
    async def down(request: Request) -> None:
        await request.respond(500, {"error": {"message": f"out of order, {KEY}"}})

    async def filtered(request: Request) -> None:
        await request.say("", "content_filter")

    async with contextlib.AsyncExitStack() as stack:
        behaviours = {"one": down, "two": down, "no": filtered}
        provider = await stack.enter_async_context(rude_provider(behaviours))
        control = await stack.enter_async_context(run_control(provider.endpoint))
        control.secret, control.secrets = "model-key", {"model-key": KEY}
        async with running_agent(control):
            begun = datetime.now(UTC)

            def failure() -> ModelFailure | None:
                edge = [report for report in control.statuses if report.lane == "edge"]
                return edge[-1].model_failure if edge else None

            await control.say("one", "inb_1")
            await control.until(lambda: failure() is not None)
            first = failure()
            await control.say("two", "inb_2")
            await control.replied(2)
            await control.say("hello", "inb_3")
            await control.until(lambda: failure() is None)
            await control.say("no", "inb_4")
            await control.replied(4)
            await control.until(lambda: control.statuses[-1].state == "EDGE_IDLE")
    assert first is not None and first.model == "rehearsal"
    assert begun <= first.since <= datetime.now(UTC)
    assert provider.endpoint in first.words and "try again" in first.words
    told = [report.model_failure for report in control.statuses if report.model_failure]
    assert {one.since for one in told} == {first.since}
    assert failure() is None and KEY not in str(control.statuses)


async def test_a_wait_for_a_rate_limit_can_be_cancelled_and_the_notice_comes_at_once() -> None:
    limited = error(429, {}, "", Retry_After="60")
    async with rude_provider({"wait": limited.behave}) as provider:
        async with run_control(provider.endpoint) as control, running_agent(control):
            began = time.monotonic()
            await control.say("wait")
            await control.until(lambda: bool(control.replies()))
            assert control.replies()[0].kind == "notice"
            assert "60 s" in control.replies()[0].text
            await control.tell(CancelSignal())
            assert (await control.replied())[-1].text == "Cancelled."
            assert time.monotonic() - began < 55
            await control.say("hello", "inb_2")
            assert (await control.replied(2))[-1].text == FINE
    assert provider.asked["wait"] == 1


async def test_a_prompt_that_is_too_long_is_compacted_and_asked_again() -> None:
    sizes: list[int] = []

    async def long(request: Request) -> None:
        sizes.append(len(str(request.body)))
        await request.say("word " * 2_000)

    async def now(request: Request) -> None:
        sizes.append(len(str(request.body)))
        if sizes[-1] > sizes[0] + 25_000:
            await request.respond(400, CONTEXT)
        else:
            await request.say("made it")

    async with rude_provider({"long": long, "now": now}) as provider:
        async with run_control(provider.endpoint) as control, running_agent(control):
            for number in range(6):
                await control.say("long", f"inb_{number}")
                await control.replied(number + 1)
            await control.say("now", "inb_now")
            reply = (await control.replied(7))[-1]
            assert (reply.kind, reply.text) == ("answer", "made it")
    assert 2 <= provider.asked["now"] <= 4
    assert "memory_compacted" in control.types()
    # what was folded away is still in the log
    assert control.types().count("user_msg") == 7
