"""The SDK loads without its catalogue of types, and code that needs a type still gets it."""

import subprocess
import sys

PROBE = """
import sys
from choir_agent.models.sdk_import import import_sparingly
sdk = import_sparingly("choir_agent.models.openai_sdk")
assert not [name for name in sys.modules if name.startswith("openai.types")]
sdk.SdkClient("http://127.0.0.1:1/v1", None)
from openai.types.chat import ChatCompletion
assert "choices" in ChatCompletion.model_fields
import openai
assert openai.AsyncOpenAI(api_key="x").chat.completions.create
print("ok")
"""

CHANGED = """
import sys
import choir_agent.models.sdk_import as sparing
sparing.CATALOGUE = ("openai._models",)
sdk = sparing.import_sparingly("choir_agent.models.openai_sdk")
assert "openai.types.chat" in sys.modules
sdk.SdkClient("http://127.0.0.1:1/v1", None)
print("ok")
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr


def test_the_catalogue_is_not_loaded_and_stays_available() -> None:
    assert run(PROBE) == "ok"


def test_an_sdk_that_needs_its_types_to_load_is_loaded_whole() -> None:
    assert run(CHANGED) == "ok"
