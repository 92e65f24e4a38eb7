"""Compile the modules of the environments below /opt; run by sync.sh.

The environments have most packages in common, so what is the same is compiled once and copied. Python itself
corrects the file names in a copy when it loads it. The files never change, so their times are not compared.
"""

import os
import py_compile
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError

TOP = Path("/opt")


def compile_file(source: Path) -> None:
    """Write the bytecode of a module; a file that is no valid module gets none, as in pip."""
    try:
        py_compile.compile(
            str(source), doraise=True, quiet=2, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
        )
    except PyCompileError:
        sys.stderr.write(f"not compiled: {source}\n")


def find_sources() -> list[list[Path]]:
    """Return the modules without bytecode, in groups of equal ones."""
    groups: dict[tuple[Path, bytes], list[Path]] = {}
    for packages in sorted(TOP.glob("*/lib/python3*/site-packages")):
        for source in packages.rglob("*.py"):
            if not Path(cache_from_source(str(source))).exists():
                key = source.relative_to(packages), source.read_bytes()
                groups.setdefault(key, []).append(source)
    return list(groups.values())


def main() -> None:
    """Compile one of each group and copy its bytecode to the others."""
    groups = find_sources()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_file, [group[0] for group in groups], chunksize=50))
    for first, *others in groups:
        bytecode = Path(cache_from_source(str(first)))
        for other in others if bytecode.exists() else ():
            copy = Path(cache_from_source(str(other)))
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(bytecode, copy)


if __name__ == "__main__":
    main()
