"""Carry git's question for a credential to the agent, and its answer back (spec 14.4).

Run by git as `git-cred-helper -I -S cred_helper.py SOCKET get`, where `git-cred-helper` is a link to the
agent's Python; what comes next is `door`. It holds nothing itself, and imports little: git waits for it.
"""

import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

PATIENCE_S = 10


def ask(path: str, question: bytes) -> bytes:
    """Return the agent's answer; raises OSError when it does not listen."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(PATIENCE_S)
    connection.connect(path)
    connection.send(question)
    connection.shutdown(SHUT_WR)
    parts: list[bytes] = []
    while part := connection.recv(8192):
        parts.append(part)
    return b"".join(parts)


def main(arguments: list[str]) -> int:
    """Answer `get`; there is nothing to store or to erase."""
    if len(arguments) != 2 or arguments[1] != "get":
        return 0
    question = sys.stdin.buffer.read(8192)
    try:
        answer = ask(arguments[0], question)
    except OSError as error:
        sys.stderr.write(f"choir: the agent gives no credential: {error}\n")
        return 1
    said, _, text = answer.partition(b"\0")
    if said:
        sys.stderr.write(f"choir: {said.decode(errors='replace')}\n")
    sys.stdout.buffer.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
