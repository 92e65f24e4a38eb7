"""Write the sources of the documentation site: `python -m scripts.docs OUT`. Used by `make docs`.

`python -m scripts.docs check SITE` exits with 1 if a page of a built site loads from another server,
`python -m scripts.docs drawings` draws the pictures of `docs/concepts/` again.
"""

import shutil
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from scripts.docs.cli import cli_reference
from scripts.docs.drawings import DRAWINGS
from scripts.docs.events import event_reference
from scripts.docs.http_api import http_reference
from scripts.docs.pages import (
    GENERATED,
    ROOT,
    SITE_SETTINGS,
    SitePages,
    assets,
    config_page,
    foreign_requests,
    rewrite_links,
)

GENERATORS = {
    "docs/reference/cli.md": cli_reference,
    "docs/reference/http.md": http_reference,
    "docs/reference/events.md": event_reference,
}


def write_sources(out: Path) -> None:
    """Write the pages, pictures and `mkdocs.yml` of the site into `out`, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    pages = SitePages.load()
    for source, target in pages.targets.items():
        if source in GENERATED:
            text = GENERATORS[source]()
        elif source == "docs/config.md":
            text = config_page((ROOT / source).read_text())
        else:
            text = (ROOT / source).read_text()
        _write(out / "pages" / target, rewrite_links(text, source=source, pages=pages))
    for source, target in assets().items():
        (out / "pages" / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, out / "pages" / target)
    _write(out / "pages/site.css", (SITE_SETTINGS.parent / "site.css").read_text())
    settings = yaml.safe_load(SITE_SETTINGS.read_text())
    _write(
        out / "mkdocs.yml",
        yaml.safe_dump({**settings, "docs_dir": "pages", "nav": pages.nav}, sort_keys=False),
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        found = {
            it
            for page in Path(sys.argv[2]).rglob("*.html")
            for it in foreign_requests(page.read_text())
        }
        sys.exit(f"the site loads from other servers: {sorted(found)}" if found else 0)
    if sys.argv[1:] == ["drawings"]:
        for name, drawing in DRAWINGS.items():
            _write(ROOT / "docs/concepts" / f"{name}.svg", drawing().render())
    else:
        write_sources(Path(sys.argv[1]))
