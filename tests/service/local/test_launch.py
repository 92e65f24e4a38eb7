"""How a child is started: its user, its ties, its environment."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from choir_local.launch import PIPE_ROOM, Command, clean_environment, run_to_end
from choir_local.process_user import SAME_USER, ProcessUser, unprivileged_identity

SOON = timedelta(seconds=30)
AS_ROOT = [ProcessUser("mapped:65534:65534"), ProcessUser("lowered:65534:65534")] * (
    os.geteuid() == 0
)


async def run_python(
    code: str, identity: ProcessUser = SAME_USER, stdin: bytes = b""
) -> tuple[int, str]:
    env = clean_environment(CHOIR_X="1")
    return await run_to_end(Command((sys.executable, "-c", code), env, stdin, (), identity), SOON)


@pytest.mark.parametrize("identity", [unprivileged_identity(), *AS_ROOT], ids=lambda i: i.text)
async def test_a_server_that_refuses_root_still_reaches_private_files(
    identity: ProcessUser, tmp_path: Path
) -> None:
    secret = tmp_path / "private"
    secret.write_text("found")
    secret.chmod(0o600)
    code = f"import os; print(os.geteuid() != 0, open({str(secret)!r}).read())"
    assert await run_python(code, identity) == (0, "True found\n")


async def test_a_child_sees_no_key_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    _, seen = await run_python("import os; print(dict(os.environ))")
    assert "canary" not in seen
    assert "'CHOIR_X': '1'" in seen


async def test_a_child_leads_its_own_session_so_that_ctrl_c_is_ours() -> None:
    code, said = await run_python("import os; print(os.getsid(0) == os.getpid())")
    assert (code, said) == (0, "True\n")


async def test_standard_input_comes_whole_or_not_at_all() -> None:
    full = b"x" * PIPE_ROOM
    count = "import sys; print(len(sys.stdin.read()))"
    assert await run_python(count, stdin=full) == (0, f"{PIPE_ROOM}\n")
    with pytest.raises(ValueError, match="exceeds"):
        await run_python(count, stdin=full + b"x")


async def test_a_child_that_takes_too_long_is_killed() -> None:
    command = Command((sys.executable, "-S", "-c", "import time; time.sleep(600)"))
    with pytest.raises(TimeoutError):
        await run_to_end(command, timedelta(seconds=0.2))


async def test_a_program_that_is_not_there_is_said_so() -> None:
    code, said = await run_to_end(Command(("/nowhere/program",)), SOON)
    assert code == 1
    assert "cannot start /nowhere/program" in said
    assert "Traceback" not in said
