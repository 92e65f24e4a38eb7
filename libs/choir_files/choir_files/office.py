"""Text of Word documents and presentations, read as a stream of XML from the parts of their ZIP archive.

Only the standard library is used (decision 50). A part with a document type is refused, so entities are never
expanded. Nothing is unpacked to memory as a whole.
"""

import codecs
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.parsers import expat

from choir_files.errors import UnreadableFile
from choir_files.office_text import OpenDocumentText, PartHandler, PartText

# zipfile decodes names with it; the process that reads a file can load nothing
codecs.lookup("cp437")
MAX_PART = 200_000_000
"""Bytes of one unpacked part; a book of 1,000 pages has 10 million."""
BLOCK = 1 << 16
OPEN_DOCUMENT = "content.xml"
"""The part with the text of an OpenDocument file."""
OLD_OFFICE = b"\xd0\xcf\x11\xe0"
"""The first bytes of an encrypted file, and of formats before 2007."""
_HEADING_STYLE = re.compile(r"^(?:heading (\d)|title)$", re.IGNORECASE)
MAX_BASES = 10
"""Styles that one style is based on."""


def read_word(content: bytes) -> Iterator[str]:
    """Yield the paragraphs and table rows of a Word or OpenDocument text, headings marked with `#`."""
    package = _Package(content)
    if package.is_open_document:
        yield from _read_open_document(package)
        return
    main = package.find_main("word/document.xml")
    related = package.list_related(main)
    styles = _Styles()
    for part in _of_type(related, "styles"):
        for _ in package.parse(part, styles):
            pass
    texts = PartText(styles.list_levels())
    for part in (main, *_of_type(related, "footnotes"), *_of_type(related, "endnotes")):
        for _ in package.parse(part, texts):
            yield from texts.take_lines()


def read_slides(content: bytes) -> Iterator[str]:
    """Yield the text of a presentation, slide by slide in their order, each with its notes."""
    package = _Package(content)
    if package.is_open_document:
        yield from _read_open_document(package)
        return
    main = package.find_main("ppt/presentation.xml")
    order = _SlideOrder()
    for _ in package.parse(main, order):
        pass
    slides = {relation.name: relation.target for relation in package.list_related(main)}
    for number, name in enumerate(order.names, 1):
        if name not in slides:
            continue
        heading = [f"# Slide {number}"]
        slide = slides[name]
        for part in (slide, *_of_type(package.list_related(slide), "notesSlide")):
            texts = PartText({})
            for _ in package.parse(part, texts):
                for line in texts.take_lines():
                    # a slide of pictures gets no heading
                    yield from heading
                    heading.clear()
                    yield line


def _read_open_document(package: "_Package") -> Iterator[str]:
    texts = OpenDocumentText()
    for _ in package.parse(OPEN_DOCUMENT, texts):
        yield from texts.take_lines()


@dataclass(frozen=True, slots=True)
class _Relation:
    """A reference from one part to another."""

    name: str
    kind: str
    target: str


class _Package:
    """The parts of an Office file."""

    def __init__(self, content: bytes) -> None:
        if content.startswith(OLD_OFFICE):
            raise UnreadableFile("is encrypted with a password, or older than Office 2007")
        self._archive = zipfile.ZipFile(io.BytesIO(content))
        self._names = frozenset(self._archive.namelist())
        self.is_open_document = OPEN_DOCUMENT in self._names

    def find_main(self, default: str) -> str:
        """Return the name of the part that the file begins with."""
        return next(iter(_of_type(self.list_related(""), "officeDocument")), default)

    def list_related(self, part: str) -> list[_Relation]:
        """Return the relations of a part, or of the whole file for an empty name."""
        folder, name = posixpath.split(part)
        listing = posixpath.join(folder, "_rels", f"{name}.rels")
        if listing not in self._names:
            return []
        relations = _Relations(folder)
        for _ in self.parse(listing, relations):
            pass
        return relations.relations

    def parse(self, part: str, handler: PartHandler) -> Iterator[None]:
        """Pass the elements of a part to a handler; yields after each block, so that text can be taken."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_document_type
        parser.StartElementHandler = lambda name, attributes: handler.start(
            _local(name),
            {_local(key): attributes[key] for key in sorted(attributes, key=_is_qualified)},
        )
        parser.EndElementHandler = lambda name: handler.end(_local(name))
        parser.CharacterDataHandler = handler.data
        size = 0
        with self._archive.open(part) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                if size > MAX_PART:
                    raise UnreadableFile(f"unpacks to more than {MAX_PART // 1_000_000} MB")
                parser.Parse(block)
                yield
        parser.Parse(b"", True)
        yield


class _Relations(PartHandler):
    """The relations that a part lists."""

    def __init__(self, folder: str) -> None:
        self.relations: list[_Relation] = []
        self._folder = folder

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Note a relation inside the file."""
        if tag == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", self._folder, attributes["Target"]))
            kind = attributes["Type"].rpartition("/")[2]
            self.relations.append(_Relation(attributes["Id"], kind, target.lstrip("/")))


class _SlideOrder(PartHandler):
    """The names of a presentation's slides, in their order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Note a slide. It has two attributes `id`; the second one names the relation."""
        if tag == "sldId":
            self.names.append(attributes["id"])


class _Styles(PartHandler):
    """The heading levels of a Word document's styles, by their own name, outline level or base."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._bases: dict[str, str] = {}
        self._style = ""

    def list_levels(self) -> dict[str, int]:
        """Return the level of every style that makes a heading."""
        levels = {style: self._find_level(style) for style in {*self._levels, *self._bases}}
        return {style: level for style, level in levels.items() if level}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Note what says that a style is a heading."""
        value = attributes.get("val", "")
        match tag:
            case "style":
                self._style = attributes.get("styleId", "")
            case "name" if heading := _HEADING_STYLE.match(value):
                self._levels[self._style] = int(heading[1] or 1)
            case "outlineLvl" if value.isdigit() and int(value) < 9:
                self._levels.setdefault(self._style, int(value) + 1)
            case "basedOn":
                self._bases[self._style] = value
            case _:
                pass

    def _find_level(self, style: str) -> int:
        for _ in range(MAX_BASES):
            if style in self._levels:
                return self._levels[style]
            style = self._bases.get(style, "")
        return 0


def _of_type(relations: list[_Relation], kind: str) -> list[str]:
    return [relation.target for relation in relations if relation.kind == kind]


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _is_qualified(name: str) -> bool:
    # of two attributes of one name, the one with a namespace counts
    return " " in name


def _refuse_document_type(*_: object) -> None:
    raise UnreadableFile("contains a document type, which Office files do not have")
