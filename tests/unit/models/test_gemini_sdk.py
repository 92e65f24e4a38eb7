"""SDKs are imported when a model needs them, and the Gemini SDK without packages that it can do without."""

import subprocess
import sys

PROBE = """
import sys
import choir_models.registry
import choir_models.gemini.model, choir_models.openai_responses.model
sdks = ("google", "openai", "anthropic", "httpx2")
assert not [name for name in sys.modules if name.startswith(sdks)], "imported too early"
import choir_models.gemini.sdk_client
assert "aiohttp" not in sys.modules and "httpx" not in sys.modules
import aiohttp, httpx
assert aiohttp.ClientSession and httpx.Client
print("ok")
"""


def test_the_sdk_loads_late_and_hides_nothing_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert done.stdout.strip() == "ok", done.stderr
