"""The official conformance suite of MCP against Choir's MCP client and `choirctl mcp login`."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.mcp_conformance import INSTALL_WITHIN_S, NodePackages, install_packages

# The installation from npm alone may take minutes.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(INSTALL_WITHIN_S + 600)]
CLIENT = Path(__file__).parents[2] / "support" / "mcp_conformance_client.py"
SCENARIOS = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    # these begin with a login
    *(
        "auth/metadata-default",
        "auth/metadata-var1",
        "auth/metadata-var2",
        "auth/metadata-var3",
        "auth/scope-from-www-authenticate",
        "auth/scope-from-scopes-supported",
        "auth/scope-omitted-when-undefined",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
    ),
    *(
        "auth/token-endpoint-auth-none",
        "auth/token-endpoint-auth-basic",
        "auth/token-endpoint-auth-post",
        "auth/resource-mismatch",
    ),
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> NodePackages:
    return asyncio.run(install_packages(tmp_path_factory.mktemp("node")))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_suite_finds_no_fault_in_the_client(suite: NodePackages, name: str) -> None:
    results = await suite.conformance(
        "client", command=f"{sys.executable} {CLIENT}", scenario=name, timeout="300000"
    )
    assert len(results) == 1
    [result] = results.values()
    assert result.summary.endswith(" success") and result.faults == [], result.output[-2000:]
