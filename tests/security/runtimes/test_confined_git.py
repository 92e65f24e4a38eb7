"""git's credentials work within an agent's walls: the private directory, its sockets, the helper's link."""

import pytest

from tests.security.runtimes.confined import confining
from tests.security.runtimes.confined_calls import newest_landlock

pytestmark = pytest.mark.skipif(
    newest_landlock() == 0,
    reason="NO LANDLOCK IN THIS KERNEL: the confinement of agents is not tested here",
)

CODE = """
import asyncio
from choir_agent.credentials.git_access import GitAccess
from choir_agent.settings import CurrentSettings
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.call_launcher_client import CallLauncherClient
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.tool import CallContext
from choir_common.wire.config import AgentSettings, Budgets, GitIdentityConfig, ModelConfig

identity = GitIdentityConfig(name='Dev', email='d@example.org', secret='git', hosts=('git.local',))
settings = AgentSettings(
    model_name='d', model=ModelConfig(model='m', endpoint='http://x'), budgets=Budgets(),
    heartbeat_interval_ms=1000, rate_limit_retry_ms=1000, event_window=50, git_identity=identity)
ASK = "printf 'protocol=https\\\\nhost=git.local\\\\n\\\\n' | git credential fill; git config user.name"
LIST = ("SSH_AUTH_SOCK=$(ssh -F $(dirname $GIT_CONFIG_GLOBAL)/ssh_config -G git.local "
        "| sed -n 's/^identityagent //p') ssh-add -l")

async def main():
    home = Path(boot['workspace'])
    subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', 'key'], check=True)
    key = Path('key').read_text()
    Path('key').unlink()
    git = GitAccess(os.environ['TMPDIR'], home)
    shell = ShellTool(ProgramRunner(
        home, os.environ['TMPDIR'], git=git,
        launcher=CallLauncherClient(int(os.environ['CHOIR_CALL_LAUNCHER']))
    ))
    async def run(command):
        done = await shell.run(CallContext('c', 'edge'), {'command': command})
        return done.output['stdout'] + done.output['stderr']
    await git.apply_settings(CurrentSettings(settings, {'git': 'the-token'}))
    asked = await run(ASK)
    await git.apply_settings(CurrentSettings(settings, {'git': key}))
    listed = await run(LIST)
    place = Path(git.environment()['GIT_CONFIG_GLOBAL']).parent
    await git.close()
    report({'asked': asked, 'listed': listed, 'left': place.exists()})

asyncio.run(main())
"""


async def test_the_helper_and_the_ssh_agent_work_inside_the_walls() -> None:
    async with confining(CODE) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
    assert "password=the-token" in report["asked"]
    assert "Dev" in report["asked"]
    assert "ED25519" in report["listed"]
    assert report["left"] is False
