"""Harnesses that break rules: `python rough_harness.py BEHAVIOUR`, with the standard library only.

`jsonl` speaks Choir's JSON lines as documented; all others speak ACP, and are hostile or broken.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

BEHAVIOUR = sys.argv[1]


def send(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def rpc(**message: Any) -> None:
    send(jsonrpc="2.0", **message)


def say(text: str, session: str = "s") -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    rpc(method="session/update", params={"sessionId": session, "update": update})


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)  # type: ignore[no-any-return]


def reach(address: tuple[str, int]) -> str:
    try:
        socket.create_connection(address, 3).close()
    except OSError as error:
        return type(error).__name__
    return "connected"


def attempt(action: Any) -> str:
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"


def work(number: Any, text: str) -> None:
    """Do what the behaviour says with a prompt."""
    match BEHAVIOUR:
        case "forge":
            # answers to what nobody asked, a foreign session, a method that does not exist
            rpc(id=number + 1, result={"stopReason": "end_turn"})
            rpc(id="1", result={"sessionId": "other"})
            say("for another session", session="other")
            rpc(id=7, method="fs/delete", params={"sessionId": "s", "path": "note.txt"})
            rpc(id=8, method="fs/read_text_file", params={"sessionId": "other", "path": "note.txt"})
            path = {"sessionId": "s", "path": {"deep": 1}, "content": "x"}
            rpc(id=9, method="fs/write_text_file", params=path)
            codes = [read()["error"]["code"] for _ in range(3)]
            say(f"{codes}; {reach(('192.0.2.1', 443))}; {reach(('127.0.0.1', 1))}")
            rpc(id=number, result={"stopReason": "end_turn"})
        case "outside":
            # in the first line of the prompt: a file outside of the workspace
            tried = [attempt(lambda: Path(text).read_text()), attempt(Path(text).unlink)]
            say(" ".join((*tried, os.environ.get("CODER_KEY", ""), attempt(Path("own").touch))))
            rpc(id=number, result={"stopReason": "end_turn"})
        case "flood":
            while True:
                say("x" * 100_000)
        case "noise":
            while True:
                print("no message at all", flush=True)
        case "giant":
            print("x" * 20_000_000, flush=True)
        case "deaf":
            Path("hangs").touch()
            while True:
                time.sleep(60)
        case "crash":
            print("out of luck\x1b[31m", file=sys.stderr, flush=True)
            sys.exit(3)


def speak_acp() -> None:
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                rpc(id=message["id"], result={"protocolVersion": 9 if BEHAVIOUR == "new" else 1})
            case "session/new":
                rpc(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                work(message["id"], message["params"]["prompt"][0]["text"])


def speak_lines() -> None:
    assert read() == {"type": "hello", "protocol": 1}
    send(type="hello", protocol=1, name="lines 0.1", resume=False)
    assert read()["type"] == "session"
    send(type="session", id="one")
    assert "count" in read()["text"]
    send(type="plan", steps=["count", "tell"])
    send(type="step", title="counting", status="completed")
    send(type="permission", id="p1", title="count to ten", kind="execute", input={"n": 10})
    answer = read()
    send(type="message", text="not the result")
    send(type="usage", input_tokens=100, output_tokens=10)
    send(type="done", outcome="completed", text=f"counted: {answer['allowed']}")
    read()


if __name__ == "__main__":
    speak_lines() if BEHAVIOUR == "jsonl" else speak_acp()
