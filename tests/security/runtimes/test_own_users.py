"""S28: agents that root starts have users of their own; files keep their owner on disk."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from choir_common.confinement import script_path
from choir_common.confinement.users import FIRST_UID, UIDS, own_user
from tests.security.runtimes.confined import confining
from tests.security.runtimes.confined_calls import PYTHON, Host, run_confined, unsupported

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="LOUD: only root can give users")


async def test_files_of_other_users_in_a_workspace_keep_their_permissions() -> None:
    code = """
def append(name):
    with open(name, 'a') as file:
        file.write('x')
report({name: [os.stat(name).st_uid, os.stat(name).st_gid, attempt(lambda: append(name))[0]]
        for name in ('grouped', 'shared', 'private')})
"""
    async with confining(code) as place:
        spec = place.spec()
        owners = {
            "grouped": (0, 7, 0o600),
            "shared": (1000, 1000, 0o666),
            "private": (1000, 0, 0o600),
        }
        for name, (user, group, mode) in owners.items():
            path = spec.workspace / name
            path.touch()
            path.chmod(mode)
            os.chown(path, user, group)
        await place.runtime.start(spec)
        report = await place.report()
        own = own_user(place.home, "agent main")
    assert report == {
        "grouped": [own, 7, "done"],
        "shared": [1000, 1000, "done"],
        "private": [1000, own, "refused"],
    }


async def test_each_agent_is_a_user_of_its_own_and_its_files_stay_those_of_the_owner() -> None:
    code = """
Path('made').write_text('new')
git = subprocess.run('git init -q r && git -C r status && ssh -V', shell=True, capture_output=True)
report({'user': os.getuid(), 'owners': [os.stat(name).st_uid for name in ('given', 'made')],
        'given': Path('given').read_text(), 'git': git.returncode,
        'name': subprocess.run(['id', '-un'], capture_output=True, text=True).stdout.strip()})
"""
    users = {}
    async with confining(code) as place:
        for agent in ("main", "other"):
            spec = place.spec(agent)
            given = spec.workspace / "given"
            given.write_text("old")
            given.chmod(0o600)
            await place.runtime.start(spec)
            report = await place.report(agent)
            users[agent] = user = report.pop("user")
            owners = [user, user]
            assert report == {"owners": owners, "given": "old", "git": 0, "name": "choir"}
            on_disk = {path.stat().st_uid for path in spec.workspace.rglob("*")}
            assert on_disk == {os.geteuid()}
        assert place.runtime.limitations() == ()
    assert len(set(users.values())) == 2


@pytest.mark.parametrize("abi", [1, 5])
def test_an_agent_sends_no_signals_on_older_kernels(abi: int) -> None:
    host = Host(abi, root=True)
    if reason := unsupported(host):
        pytest.skip(reason)
    code = """
try:
    os.kill({pid}, 0)
    signal = 'sent'
except PermissionError:
    signal = 'refused'
user = 'import os; print(os.getuid()); open("made", "w")'
print(json.dumps([signal, os.getuid(), end(start(user))[0]]))
"""
    with subprocess.Popen(["/bin/sleep", "60"]) as outside:
        signal, user, of_call = run_confined(host, code.format(pid=outside.pid))
        outside.kill()
    assert signal == "refused"
    assert int(of_call) == user >= FIRST_UID


def test_where_owners_cannot_be_translated_an_agent_stays_root_and_it_is_named(
    tmp_path: Path,
) -> None:
    workspace, view = tmp_path / "workspace", tmp_path / "view"
    for directory in (workspace, view):
        directory.mkdir()
    words = [PYTHON, "-I", "-S", script_path(), "--parent", str(os.getpid())]
    words += ["--view", str(view), "--write", str(workspace), "--user", str(FIRST_UID)]
    for path in ("/usr", "/lib", "/lib64", "/bin", "/proc"):
        words += ["--read", path] if Path(path).exists() else []
    words += ["--device", "/dev/null", "--owned", "/proc"]  # a file system without such mounts
    words += ["--chdir", str(workspace), "--"]
    tested = subprocess.run(words, capture_output=True, text=True, check=True)
    (missing,) = json.loads(tested.stdout)
    assert missing.startswith("users of their own (") and "as root" in missing
    words += ["/bin/sh", "-c", "id -u; grep CapEff /proc/self/status"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "CapEff:", "0" * 16]


def test_a_user_is_derived_from_the_name_and_the_state_directory(tmp_path: Path) -> None:
    users = {own_user(home, name) for home in (tmp_path, tmp_path / "b") for name in ("a", "b")}
    assert len(users) == 4
    assert all(FIRST_UID <= user < FIRST_UID + UIDS for user in users)
    assert own_user(tmp_path, "a") == own_user(tmp_path, "a")
