"""The SDK loads without its catalogue of types, and code that needs a type still gets it."""

import subprocess
import sys

PROBE = """
import sys
from choir_models.openai.sdk_import import import_client_class
client_class = import_client_class()
assert not [name for name in sys.modules if name.startswith("openai.types")]
client_class("http://127.0.0.1:1/v1", None)
from openai.types.chat import ChatCompletion
assert "choices" in ChatCompletion.model_fields
import openai
assert openai.AsyncOpenAI(api_key="x").chat.completions.create
print("ok")
"""

CHANGED = """
import sys
from choir_models.openai import sdk_import
sdk_import.STUBBED_MODULES = ("openai._models",)
client_class = sdk_import.import_client_class()
assert "openai.types.chat" in sys.modules
client_class("http://127.0.0.1:1/v1", None)
print("ok")
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr


def test_the_catalogue_is_not_loaded_and_stays_available() -> None:
    assert run(PROBE) == "ok"


def test_an_sdk_that_needs_its_types_to_load_is_loaded_whole() -> None:
    assert run(CHANGED) == "ok"
