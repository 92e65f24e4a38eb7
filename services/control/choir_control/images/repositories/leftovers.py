"""Files that a killed git leaves in a repository, and on which later calls fail."""

import shutil
from pathlib import Path

TEMPORARY_FILES = ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_objdir-*")


def clear_leftovers(directory: Path) -> None:
    """Remove such files from a bare repository that no git process uses now."""
    for pattern in TEMPORARY_FILES:
        for path in directory.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
