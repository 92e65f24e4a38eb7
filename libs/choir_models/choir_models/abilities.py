"""What a model reads: from its settings, or else by its name. Pure."""

import re

from choir_common.wire.config import ModelConfig

_SEES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-5|gpt-6|\bo[134]\b(?!-mini)|\bo4-mini|claude|gemini|gemma-?[34]"
    r"|grok-(2-vision|[4-9])|pixtral|mistral-(small|medium|large)|magistral|llava|moondream|minicpm-v"
    r"|qwen[\d.]*-?(vl|omni)|qvq|llama-?(3\.2.*vision|4)|phi-?[34].*(vision|multimodal)|internvl|glm-4.*v|vision"
    r"|kimi-(vl|k2\.5)|nova-(lite|pro|premier)|deepseek-vl|molmo",
    re.IGNORECASE,
)
"""Names of models that see, as of November 2026."""


_READS_PDF: dict[str, re.Pattern[str]] = {
    "anthropic": re.compile(r"claude", re.IGNORECASE),
    "gemini": re.compile(r"gemini", re.IGNORECASE),
    "openai-responses": re.compile(r"gpt-4o|gpt-4\.1|gpt-5|gpt-6|\bo[134]\b", re.IGNORECASE),
}
"""Names of models that read PDFs, by API. At other APIs a server may not pass them on."""


def reads_pdfs(settings: ModelConfig) -> bool:
    """Return whether a model gets PDFs as they are; its server must take them, too."""
    if settings.api == "ollama":
        return False
    if settings.input is not None:
        return "pdf" in settings.input
    names = _READS_PDF.get(settings.api)
    return names is not None and names.search(settings.model) is not None


def sees_pictures(settings: ModelConfig) -> bool:
    """Return whether a model reads pictures."""
    if settings.input is not None:
        return "image" in settings.input
    return _SEES.search(settings.model) is not None
