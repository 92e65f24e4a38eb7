"""Import of the openai SDK without its response types, which take 12 MB and 0.3 s."""

from typing import TYPE_CHECKING

from choir_models.sdk_import import import_with_stubs

if TYPE_CHECKING:
    from choir_models.openai.sdk_client import OpenAiClient

STUBBED_MODULES = (
    "openai.types",
    "openai.lib._parsing",
    "openai.lib._tools",
    "openai.lib.streaming",
)


def import_client_class() -> "type[OpenAiClient]":
    """Return the client class, which imports the SDK."""
    import_with_stubs("choir_models.openai.sdk_client", sdk="openai", stubbed=STUBBED_MODULES)
    from choir_models.openai.sdk_client import OpenAiClient  # noqa: PLC0415 - imported above

    return OpenAiClient
