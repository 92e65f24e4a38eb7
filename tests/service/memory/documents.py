"""Files of every format that is read, and hostile ones, for tests."""

import io
import zipfile
import zlib
from datetime import date, time
from pathlib import Path

import docx
import pptx
import pptx.util
import xlsxwriter


def write_word(path: Path, *, heading: str = "Pressure", text: str = "Keep it at 2 bar.") -> None:
    """Write a document with a heading, a paragraph and a table."""
    document = docx.Document()
    document.add_heading(heading, level=2)
    document.add_paragraph(text)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "valve", "brass"
    document.save(str(path))


def write_slides(path: Path) -> None:
    """Write a presentation of one slide with a text box and a note."""
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    inch = pptx.util.Inches(1)
    slide.shapes.add_textbox(inch, inch, inch, inch).text_frame.text = "Quarterly harvest"
    slide.notes_slide.notes_text_frame.text = "Mention the plums."
    presentation.save(str(path))


def write_sheet(path: Path) -> None:
    """Write a workbook with one sheet."""
    with xlsxwriter.Workbook(str(path)) as workbook:
        sheet = workbook.add_worksheet("Costs")
        sheet.write_row(0, 0, ["item", "price"])
        sheet.write_row(1, 0, ["ladder", 79])
        sheet.write(2, 0, "bought")
        sheet.write_datetime(
            2, 1, date(2024, 3, 1), workbook.add_format({"num_format": "yyyy-mm-dd"})
        )
        sheet.write_datetime(2, 2, time(9, 30), workbook.add_format({"num_format": "hh:mm"}))


def write_sparse_sheet(path: Path) -> None:
    """Write a small workbook whose two cells are 17 billion cells apart."""
    with xlsxwriter.Workbook(str(path)) as workbook:
        sheet = workbook.add_worksheet()
        sheet.write(0, 0, "first")
        sheet.write(1_048_575, 16_383, "last")


def write_pdf(path: Path, *pages: str) -> None:
    """Write a PDF with one line of text on each page."""
    path.write_bytes(make_pdf([_draw(text) for text in pages]))


def _draw(text: str) -> bytes:
    return f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()


def write_encrypted_pdf(path: Path) -> None:
    """Write a PDF that needs a password; its keys are those of no password at all."""
    encryption = (
        f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'ab' * 32}> /U <{'cd' * 32}> >> "
        f"/ID [<{'ef' * 16}> <{'ef' * 16}>]"
    )
    path.write_bytes(make_pdf([_draw("secret")], trailer=encryption.encode()))


def make_pdf(streams: list[bytes], *, copies: int = 1, trailer: bytes = b"") -> bytes:
    """Return a PDF with a page for each content stream, all of them `copies` times."""
    count = len(streams)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join([kids] * copies)}] /Count {count * copies} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, stream in enumerate(streams):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        packed = zlib.compress(stream, 9)
        head = f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + packed + b"\nendstream")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for place in places:
        out.write(b"%010d 00000 n \n" % place)
    out.write(
        b"trailer << /Size %d /Root 1 0 R %b >>\nstartxref\n%d\n%%%%EOF"
        % (len(objects) + 1, trailer, start)
    )
    return out.getvalue()


def write_endless_pdf(path: Path) -> None:
    """Write a small PDF with 20 million letters on its pages."""
    line = f"({'endless ' * 100}) Tj 0 -2.6 Td ".encode() * 250
    path.write_bytes(make_pdf([b"BT /F1 0.5 Tf 50 750 Td " + line + b"ET"], copies=100))


def replace_part(path: Path, part: str, content: bytes) -> None:
    """Replace a part of an Office file."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, old in parts.items():
            archive.writestr(name, old)


def write_zip_bomb(path: Path) -> None:
    """Write a Word document of less than one MB that unpacks to 600 MB."""
    write_word(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, old in parts.items():
            if name != "word/document.xml":
                archive.writestr(name, old)
        with archive.open("word/document.xml", "w") as stream:
            stream.write(b"<a>")
            for _ in range(600):
                stream.write(b" " * 1_000_000)


def write_entities(path: Path) -> None:
    """Write a Word document whose text is an entity of ten levels, a billion words, and another of a file."""
    write_word(path)
    levels = "".join(
        f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' if n else '<!ENTITY l0 "laugh">' for n in range(10)
    )
    replace_part(
        path,
        "word/document.xml",
        f'<?xml version="1.0"?><!DOCTYPE d [{levels}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p>'
        "<w:r><w:t>before &f; &l9; after</w:t></w:r></w:p></w:body></w:document>".encode(),
    )


def write_nested_word(path: Path) -> None:
    """Write a Word document with a million tables inside each other."""
    write_word(path)
    replace_part(
        path, "word/document.xml", f"<w:document {WORD}>".encode() + b"<w:tr><w:tc>" * 1_000_000
    )


WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
TRACKED_DOCUMENT = f"""<w:document {WORD} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">
<w:body>
<w:p><w:pPr><w:pStyle w:val="Title"/><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr>
<w:r><w:t>Plan</w:t></w:r></w:p>
<w:p><w:r><mc:AlternateContent>
<mc:Choice><w:txbxContent><w:p><w:r><w:t>In the box.</w:t></w:r></w:p></w:txbxContent></mc:Choice>
<mc:Fallback><w:txbxContent><w:p><w:r><w:t>In the box.</w:t></w:r></w:p></w:txbxContent></mc:Fallback>
</mc:AlternateContent></w:r></w:p>
<w:sdt><w:sdtContent><w:p><w:r><w:t>It was </w:t></w:r>
<w:ins><w:r><w:t>inserted</w:t></w:r></w:ins><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>
<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>
<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t xml:space="preserve"> in a form.</w:t></w:r></w:p>
</w:sdtContent></w:sdt>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>outer</w:t></w:r></w:p></w:tc>
<w:tc><w:tbl><w:tr><w:tc><w:p><w:r><w:t>inner cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p/></w:tc></w:tr></w:tbl>
<w:p><w:r><w:t>After</w:t><w:tab/><w:t>a tab.</w:t></w:r></w:p>
</w:body></w:document>"""
"""A box with a copy for old programs, tracked changes, a form field, a table in a table."""


def write_open_document(path: Path) -> None:
    """Write an OpenDocument text with a heading, a note, a table and a tracked change."""
    office = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
    text = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    table = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr(
            "content.xml",
            f"""<office:document-content xmlns:office="{office}" xmlns:text="{text}" xmlns:table="{table}">
            <office:body><office:text><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>
            <text:h text:outline-level="2">Winter</text:h>
            <text:p>Drain<text:s text:c="2"/>the <text:span>pipes</text:span>.</text:p>
            <table:table><table:table-row><table:table-cell><text:p>valve</text:p></table:table-cell>
            <table:table-cell><text:p>brass</text:p></table:table-cell></table:table-row></table:table>
            </office:text></office:body></office:document-content>""",
        )
