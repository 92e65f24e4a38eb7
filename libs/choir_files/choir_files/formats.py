"""The formats of files that are read, by the names of files: pure."""

from pathlib import PurePosixPath
from typing import Literal

ParsedFormat = Literal["pdf", "word", "slides", "sheet", "html"]
ChildFormat = ParsedFormat | Literal["picture", "pages"]
"""What the child process reads; of `pages` the number of pages of a PDF."""
PlainFormat = Literal["markdown", "text"]
FileFormat = ParsedFormat | PlainFormat

READER_VERSION = 1
"""Increase it when files give another text than before; every followed folder is then read again."""

_FORMATS: dict[FileFormat, str] = {
    "pdf": "pdf",
    "word": "docx docm odt",
    "slides": "pptx pptm odp",
    "sheet": "xlsx xlsm xlsb xls ods",
    "html": "html htm xhtml",
    "markdown": "md markdown mdx",
    "text": (
        "txt text rst adoc org tex log csv tsv json jsonl ndjson yaml yml toml ini cfg conf xml srt vtt eml "
        "py pyi ipynb js mjs cjs jsx ts tsx vue svelte css scss less java kt kts scala groovy c h cc cpp cxx "
        "hpp hh cs fs go rs swift m mm rb php pl pm lua r jl dart ex exs erl hs ml mli clj cljs lisp el vim "
        "sh bash zsh fish ps1 bat cmd sql graphql proto thrift tf hcl nix cmake gradle make mk dockerfile asm"
    ),
}
_PICTURE_SUFFIXES = frozenset(["jpg", "jpeg", "png", "gif", "webp", "bmp", "tif", "tiff"])
_BY_SUFFIX = {suffix: name for name, suffixes in _FORMATS.items() for suffix in suffixes.split()}
_TEXT_NAMES = {
    *("readme", "license", "licence", "copying", "notice", "authors", "contributors", "changelog"),
    *("changes", "todo", "install", "makefile", "dockerfile", "containerfile", "jenkinsfile"),
    *("vagrantfile", "gemfile", "rakefile", "procfile", "justfile"),
}
"""Names without a suffix, in lower case."""


def detect_format(name: str) -> FileFormat | None:
    """Return the format of a file by its name, or None if such files are not read."""
    path = PurePosixPath(name.lower())
    if not path.suffix:
        return "text" if path.name in _TEXT_NAMES else None
    return _BY_SUFFIX.get(path.suffix[1:])


def is_picture(name: str) -> bool:
    """Return whether a file's name is that of a picture."""
    return PurePosixPath(name.lower()).suffix[1:] in _PICTURE_SUFFIXES


def has_headings(file_format: FileFormat) -> bool:
    """Return whether a line of the text that begins with `#` is a heading; in source code it is a comment."""
    return file_format != "text"
