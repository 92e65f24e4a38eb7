"""Two names of one file give locks that meet; two files never share one."""

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.arbiter.rulings import CheckedCall, check_call
from choir_agent.locks.claim import key_path, keys_overlap, locks_conflict
from choir_agent.tools.builtin.fs_read import FsReadTool
from choir_agent.tools.builtin.fs_write import FsWriteTool
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.workspace import Workspace
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.wire.events import HeldLock, ToolCall
from tests.unit.agent.lock_rules import meet


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace(tmp_path)
    yield opened
    opened.close()


def locks_of(workspace: Workspace, tool: str, path: str) -> tuple[HeldLock, ...]:
    registry = ToolRegistry(
        [
            FsReadTool(workspace, WorkspaceFiles(workspace)),
            FsWriteTool(workspace),
        ]
    )
    arguments = f'{{"path": "{path}"' + (', "content": ""}' if tool.endswith("write") else "}")
    checked = check_call(ToolCall(call_id="c", tool=tool, arguments=arguments), registry, workspace)
    assert isinstance(checked, CheckedCall)
    return checked.locks


def meet_in_locks(one: tuple[HeldLock, ...], other: tuple[HeldLock, ...]) -> bool:
    return any(locks_conflict(mine, theirs) for mine in one for theirs in other)


@pytest.mark.parametrize(
    "name",
    [
        "a/b.txt",
        "./a/b.txt",
        "a//b.txt",
        "a/./b.txt",
        "a/b.txt/",
        "a/../a/b.txt",
        "a/c/../b.txt",
        "gone/../a/b.txt",
        "link/b.txt",
        "to_file",
        "link/../to_file",
        "chain",
    ],
)
def test_every_way_to_write_a_path_gives_the_same_key(workspace: Workspace, name: str) -> None:
    root = workspace.root
    (root / "a" / "c").mkdir(parents=True)
    (root / "a" / "b.txt").write_text("b")
    (root / "link").symlink_to("a")
    (root / "to_file").symlink_to(root / "a" / "b.txt")
    (root / "chain").symlink_to("link/../to_file")
    (lock,) = locks_of(workspace, "choir.fs.read", name)
    assert lock == HeldLock(resource="file:a/b.txt", mode="S")


def test_an_absolute_path_and_a_symlinked_root_give_the_same_key(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    workspace = Workspace(tmp_path / "alias")
    assert workspace.canonical(str(tmp_path / "alias" / "x")) == "x"
    assert workspace.canonical(str(tmp_path / "real" / "x")) == "x"
    workspace.close()


def test_two_hard_links_of_one_file_meet_although_their_paths_differ(workspace: Workspace) -> None:
    (workspace.root / "one").write_text("same")
    os.link(workspace.root / "one", workspace.root / "two")
    write = locks_of(workspace, "choir.fs.write", "one")
    read = locks_of(workspace, "choir.fs.read", "two")
    assert [lock.resource.partition(":")[0] for lock in write] == ["file", "inode"]
    assert meet_in_locks(write, read)
    assert not meet_in_locks(read, locks_of(workspace, "choir.fs.read", "one"))


def test_a_file_with_one_name_is_locked_under_it_alone(workspace: Workspace) -> None:
    (workspace.root / "one").write_text("alone")
    assert len(locks_of(workspace, "choir.fs.write", "one")) == 1
    assert len(locks_of(workspace, "choir.fs.write", "not/yet/there")) == 1


def test_names_that_differ_in_case_or_normal_form_have_one_key_only_if_they_are_one_file(
    workspace: Workspace,
) -> None:
    composed = unicodedata.normalize("NFC", "caf\u00e9")
    pairs = [("Notes.txt", "notes.txt"), (composed, unicodedata.normalize("NFD", composed))]
    for one, other in pairs:
        (workspace.root / one).write_text("first")
        same = (workspace.root / other).exists()
        locks = [locks_of(workspace, "choir.fs.write", name) for name in (one, other)]
        assert meet_in_locks(*locks) is same


PATHS = st.lists(st.sampled_from(["a", "ab", "b", "a b", "workspace"]), min_size=1, max_size=4).map(
    lambda parts: "file:" + "/".join(parts)
)
KEYS = st.one_of(PATHS, st.sampled_from(["workspace", "file:.", "browser_tab", "choirtmp"]))


@given(one=KEYS, other=KEYS)
def test_keys_overlap_exactly_where_the_plain_rules_say_so(one: str, other: str) -> None:
    assert keys_overlap(one, other) is meet(one, other)
    assert (one in key_path(other)) or (other in key_path(one)) or not meet(one, other)
