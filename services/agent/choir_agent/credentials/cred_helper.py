"""git credential helper: forwards git's request to the agent, and its response back.

Run by git as `git-cred-helper -I -S cred_helper.py SOCKET get`, where `git-cred-helper` is a symlink to the
agent's Python; `CredentialServer` responds. It stores nothing, and imports little because git waits for it.
"""

import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

PATIENCE_S = 10


def request_credential(path: str, question: bytes) -> bytes:
    """Return the agent's response; raises OSError if the agent does not listen."""
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
    """Handle `get`; other operations succeed without effect, because nothing is stored."""
    if len(arguments) != 2 or arguments[1] != "get":
        return 0
    question = sys.stdin.buffer.read(8192)
    try:
        answer = request_credential(arguments[0], question)
    except OSError as error:
        sys.stderr.write(f"choir: cannot reach the agent for a credential: {error}\n")
        return 1
    refusal, _, text = answer.partition(b"\0")
    if refusal:
        sys.stderr.write(f"choir: {refusal.decode(errors='replace')}\n")
    sys.stdout.buffer.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
