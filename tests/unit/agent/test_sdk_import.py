"""The SDK loads without its catalogue of types, and code that needs a type still gets it."""

import subprocess
import sys

CHANGED = """
import sys
from choir_models.anthropic import sdk_import
sdk_import.STUBBED_MODULES = ("anthropic._models",)
client_class = sdk_import.import_client_class()
assert "anthropic.types" in sys.modules
client_class("http://127.0.0.1:1", None)
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
import aiohttp
assert aiohttp.ClientSession
from anthropic.types import Message
assert "content" in Message.model_fields
print("ok")
"""

OPENAI = """
import sys
from choir_models.openai.client import OpenAiClient
OpenAiClient("http://127.0.0.1:1/v1", None)
assert not {"openai", "aiohttp", "httpx"} & sys.modules.keys()
print("ok")
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr


def test_openais_apis_are_called_without_its_sdk() -> None:
    assert run(OPENAI) == "ok"


def test_an_sdk_that_needs_its_types_to_load_is_loaded_whole() -> None:
    assert run(CHANGED) == "ok"


def test_the_anthropic_sdk_is_loaded_without_its_catalogue_and_only_when_it_is_needed() -> None:
    assert run(ANTHROPIC) == "ok"
