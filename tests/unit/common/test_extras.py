"""Optional packages: the command that adds one, and the version of the installation."""

import sys

import pytest

from choir_browser.contexts.engine_manager import ChromiumLauncher
from choir_browser.pages.engine import LaunchOptions
from choir_common import extras
from choir_common.errors import Unavailable
from choir_common.extras import EXTRAS, has_extra, install_command, semantic_version
from choir_memory.embedding.offline import OfflineEmbedder


@pytest.mark.parametrize(
    ("number", "semantic"),
    [
        ("1.2.3", "1.2.3"),
        ("0.1.0.dev1464", "0.1.0-dev1464"),
        ("1.2.3rc1", "1.2.3-rc1"),
        ("0.1.0.dev7+g12ab", "0.1.0-dev7"),
        ("unknown", "0.0.0"),
    ],
)
def test_the_bus_is_given_a_semantic_version(number: str, semantic: str) -> None:
    assert semantic_version(number) == semantic


def test_tests_have_all_extras() -> None:
    assert all(has_extra(extra) for extra in EXTRAS)


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/a/.local/share/pipx/venvs/choir-agents", "pipx install --force"),
        ("/home/a/.local/share/uv/tools/choir-agents", "uv tool install --force"),
        ("/opt/choir", f"{sys.executable} -m pip install"),
    ],
)
def test_the_command_fits_the_way_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, prefix: str, command: str
) -> None:
    assert install_command("offline") == "make extras EXTRAS=offline"
    monkeypatch.setattr(extras, "is_wheel", lambda: True)
    monkeypatch.setattr(sys, "prefix", prefix)
    assert install_command("offline") == f"{command} 'choir-agents[offline]'"


async def test_a_missing_extra_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # None makes an import fail, and find_spec says that there is no such module
    for module in ("playwright", "onnxruntime"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "choir_memory.embedding.offline_model", raising=False)
    embedder = OfflineEmbedder("all-MiniLM-L6-v2-int8", 384)
    with pytest.raises(Unavailable, match="make extras EXTRAS=offline"):
        await embedder.embed(["text"])
    await embedder.close()
    launch: LaunchOptions = None  # type: ignore[assignment]  # not read
    with pytest.raises(Unavailable, match="make extras EXTRAS=browser"):
        await ChromiumLauncher().start(launch)
