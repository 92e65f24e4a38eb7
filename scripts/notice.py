"""NOTICE: the third parties whose code or data Choir contains, and the packages that it installs.

`python -m scripts.notice --uv UV` writes the file again; `make notice` does. Names and licences come from the
bill of materials of `release`, so there is one source. Versions are left out: uv.lock has them.
"""

import argparse
import sys
from pathlib import Path

from scripts.pins import IMAGE_LOCK, read_image_lock
from scripts.release import bill_of_materials, license_lines
from scripts.vendor import PACKAGES

ROOT = Path(__file__).parent.parent
HEAD = """Choir
Copyright the Choir authors

Licensed under the Apache License, Version 2.0: see LICENSE.
This file is written by `make notice`.
"""
DATA = (
    "o200k_base.tiktoken.gz: the token table of OpenAI's tiktoken: MIT",
    "minilm_tokenizer.json.gz: the tokenizer of sentence-transformers/all-MiniLM-L6-v2: Apache-2.0",
)


def notice_text(uv: str, root: Path = ROOT) -> str:
    """Return the file's text. Raises CalledProcessError if uv fails."""
    images = read_image_lock((root / IMAGE_LOCK).read_text())
    bill = bill_of_materials(root, uv, {})
    served = {package.name for package in PACKAGES}
    own = ("choir", "choir-", "choirctl")
    lines = sorted(
        {
            f"{line.split(' ')[0]}: {line.partition(': ')[2]}"
            for line in license_lines(bill)
            if not line.startswith(own) and line.split(" ")[0] not in served
        }
    )
    contained = [f"{it.name}: {it.license}" for it in PACKAGES if it.is_served]
    parts = {
        "Contained in Choir's packages": sorted((*contained, *DATA)),
        "Installed with Choir, each under its own licence": lines,
        "Images that docker compose and Dockerfiles name": sorted(images),
    }
    return HEAD + "".join(
        f"\n{title}\n{'-' * len(title)}\n" + "".join(f"{row}\n" for row in rows)
        for title, rows in parts.items()
    )


def main() -> int:
    """Write NOTICE."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", required=True)
    (ROOT / "NOTICE").write_text(notice_text(parser.parse_args().uv))
    return 0


if __name__ == "__main__":
    sys.exit(main())
