"""Import of the anthropic SDK without its types and resources: 11 MB and 0.4 s instead of 50 MB and 2 s."""

from typing import TYPE_CHECKING

from choir_models.sdk_import import import_with_stubs

if TYPE_CHECKING:
    from choir_models.anthropic.sdk_client import AnthropicClient

_UNUSED = (
    *("_parse", "aws", "bedrock", "environments", "foundry", "google_cloud", "middleware"),
    *("sessions", "streaming", "threads", "tools", "vertex"),
)
STUBBED_MODULES = (
    "anthropic.types",
    "anthropic.resources",
    *(f"anthropic.lib.{name}" for name in _UNUSED),
)


def import_client_class() -> "type[AnthropicClient]":
    """Return the client class, which imports the SDK."""
    import_with_stubs("choir_models.anthropic.sdk_client", sdk="anthropic", stubbed=STUBBED_MODULES)
    from choir_models.anthropic.sdk_client import AnthropicClient  # noqa: PLC0415 - imported above

    return AnthropicClient
