"""The official conformance suite of MCP against Choir's MCP client and `choirctl mcp login`."""

import sys
from pathlib import Path

import pytest

from tests.support.mcp_conformance import install_packages

pytestmark = pytest.mark.nightly
CLIENT = Path(__file__).parents[2] / "support" / "mcp_conformance_client.py"
SCENARIOS = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    # these begin with a login
    *(
        "auth/metadata-default",
        "auth/metadata-var1",
        "auth/metadata-var2",
        "auth/scope-from-www-authenticate",
    ),
    *("auth/token-endpoint-auth-none", "auth/token-endpoint-auth-basic", "auth/resource-mismatch"),
)


async def test_the_suite_finds_no_fault_in_the_client(tmp_path: Path) -> None:
    suite = await install_packages(tmp_path)
    for name in SCENARIOS:
        results = await suite.conformance(
            "client", command=f"{sys.executable} {CLIENT}", scenario=name, timeout="300000"
        )
        assert len(results) == 1
        [result] = results.values()
        assert result.summary.endswith(" success") and result.faults == [], result.output[-2000:]
