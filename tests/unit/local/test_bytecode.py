"""Bytecode for agents, which may write none: made once where the installer made none."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import choir_agent


def test_what_agents_import_is_compiled_once(tmp_path: Path) -> None:
    """The installation is a copy of the agent's package, so that this environment keeps its own."""
    package = Path(choir_agent.__file__).parent
    shutil.copytree(package, tmp_path / "choir_agent", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "import asyncio; from choir_local import bytecode as it; print(it.is_needed());"
        "asyncio.run(it.compile_imports_of_agents()); print(it.is_needed())"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert Path(importlib.util.cache_from_source(str(tmp_path / "choir_agent/app.py"))).is_file()
