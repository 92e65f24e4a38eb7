"""The SDK loads without its catalogue of types, and code that needs a type still gets it."""

import subprocess
import sys

PROBE = """
import sys
from choir_models.openai.sdk_import import import_client_class
client_class = import_client_class()
assert not [name for name in sys.modules if name.startswith("openai.types")]
assert not {"aiohttp", "httpx"} & sys.modules.keys()
import aiohttp
assert aiohttp.ClientSession
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

ANTHROPIC = """
import sys
from choir_models.registry import ModelRegistry
assert not {"openai", "anthropic", "httpx2"} & sys.modules.keys()
from choir_models.anthropic.sdk_import import import_client_class
client_class = import_client_class()
loaded = [name for name in sys.modules if name.split(".")[0] == "anthropic"]
assert "anthropic" in loaded and len(loaded) < 200, len(loaded)
assert not [name for name in loaded if name.startswith(("anthropic.types", "anthropic.resources"))]
assert not {"aiohttp", "httpx"} & sys.modules.keys()
client_class("http://127.0.0.1:1", None)
print("ok")
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr


def test_the_catalogue_is_not_loaded_and_stays_available() -> None:
    assert run(PROBE) == "ok"


def test_an_sdk_that_needs_its_types_to_load_is_loaded_whole() -> None:
    assert run(CHANGED) == "ok"


def test_the_anthropic_sdk_is_loaded_without_its_catalogue_and_only_when_it_is_needed() -> None:
    assert run(ANTHROPIC) == "ok"
