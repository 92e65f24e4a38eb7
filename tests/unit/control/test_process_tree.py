"""Which processes descend from this one, whatever they are called."""

import subprocess
from pathlib import Path

import pytest

from choir_control.api.operator.authentication import ProcessTree

RENAMED = 'printf %s "$1" > /proc/$$/comm; echo; read -r line'


@pytest.mark.parametrize("name", ["sleep", ") S 1 (", "a) S 1 1 (b", "(", "né"])
def test_a_child_is_a_descendant_whatever_its_name_contains(name: str) -> None:
    command = ["sh", "-c", RENAMED, "sh", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert Path(f"/proc/{child.pid}/comm").read_text() == f"{name}\n"
        assert ProcessTree().is_descendant(child.pid)


def test_a_process_that_has_exited_counts_as_a_descendant() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert ProcessTree().is_descendant(child.pid)
