"""Choir's MCP client as the conformance suite starts it: `python mcp_conformance_client.py URL`.

The suite names the scenario in MCP_CONFORMANCE_SCENARIO. A scenario of authorization begins with a login as
`choirctl mcp login` makes it; then the agent's part connects with the token, gets a yes to the tools from a
stand-in of the person, and calls them.
"""

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import httpx2

from choir_common.mcp_forms import check_values
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choirctl.api.oauth_login import log_in_at
from choirctl.api.oauth_redirect import Redirect, running_redirect_server
from tests.service.agent.test_mcp_servers import Agent, Person, running

CALLS: dict[str, tuple[str, JsonObject]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
METADATA = "/.well-known/oauth-protected-resource"


class DefaultsPerson(Person):
    """Says yes, and gives a form its defaults, as choird does for fields that a person leaves out."""

    async def decision(self, request: ApprovalRequest) -> ApprovalResponse | None:
        answer = await super().decision(request)
        form = request.payload.get("form")
        if answer is None or not isinstance(form, dict):
            return answer
        return answer.model_copy(update={"values": check_values(form, {})})


async def authorization_hosts(url: str) -> str:
    """Return the hosts that an operator would name with --private-host, because the suite is local."""
    base = httpx2.URL(url)
    async with httpx2.AsyncClient(trust_env=False) as http:
        # a POST, as clients send it: some servers challenge nothing else
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        challenge = (await http.post(url, json=hello)).headers.get("www-authenticate", "")
        places = re.findall(r'resource_metadata="([^"]+)"', challenge)
        for place in (
            *places,
            base.copy_with(path=f"{METADATA}{base.path}"),
            base.copy_with(path=METADATA),
        ):
            answer = await http.get(place)
            if answer.status_code == 200:
                servers = [httpx2.URL(it) for it in answer.json()["authorization_servers"]]
                return ",".join(f"{it.host}:{it.port or 80}" for it in servers)
    return ""


async def log_in(url: str) -> str:
    """Return a token; the suite's authorization server redirects at once."""
    hosts = await authorization_hosts(url)
    async with running_redirect_server() as redirects:

        async def ask_browser(address: str, state: str) -> Redirect:
            redirects.expect(state)
            async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
                await browser.get(address)
            return await redirects.wait(20.0)

        return (await log_in_at(url, redirects.redirect_uri, ask_browser, hosts)).token


async def main(url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    token = await log_in(url) if scenario.startswith("auth/") else ""
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(Path(folder), secret=token or "unused", person=DefaultsPerson())
        own = {"secret": "test-key"} if token else {}
        async with running(agent):
            await agent.configure(command=(), url=url, hosts=(), timeout_ms=20_000, **own)
            status = await agent.until_ready()
            call = CALLS.get(scenario)
            if call is not None:
                print(await agent.call(call[0], **call[1]))
            elif scenario.startswith("auth/"):
                for name in status.tools:
                    print(await agent.call(name.removeprefix("mcp.test.")))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
