"""Read secrets.json without changing it. Used by `place` (the operator token) and `health`."""

import json
from pathlib import Path

from choir_common.errors import StartupError


def read_secrets(path: Path) -> dict[str, str]:
    """Return the secrets by name; none when there is no file.

    Raises StartupError when it is no JSON object of texts; no value is ever quoted.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise StartupError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}). Correct it."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"Cannot read the secrets in {path}: {error}.") from None
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise StartupError(f"{path} must hold one JSON object of names and texts. Correct it.")
    return values
