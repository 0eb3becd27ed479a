"""A workbook (XLSX, ECMA-376) from rows of plain values: the least that every office reads.

Text is stored in place, numbers as numbers, None as an empty cell; the first row is bold and stays
in sight. The same rows give the same bytes.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

Value = str | int | float | bool | None

#: Excel's own limits.
MOST_ROWS: Final = 1_048_576
MOST_TEXT: Final = 32_767
_MOST_NAME: Final = 31
_NOT_IN_NAMES: Final = re.compile(r"[\[\]:*?/\\']")
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAMESPACE: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_STYLES: Final = (
    f'{_HEAD}<styleSheet xmlns="{_NAMESPACE}"><fonts count="2"><font/><font><b/></font></fonts>'
    '<fills count="1"><fill/></fills><borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="2"><xf/>'
    '<xf fontId="1" applyFont="1"/></cellXfs></styleSheet>'
)


class Sheet(Struct, frozen=True):
    """One sheet: its name and its rows, the first of which is the head."""

    name: str
    rows: Iterable[Sequence[Value]]


def write_workbook(sheets: Sequence[Sheet]) -> bytes:
    """The workbook's bytes. ValueError for no sheet at all, or more rows than a sheet can have."""
    if not sheets:
        raise ValueError("a workbook has at least one sheet")
    names = _names([sheet.name for sheet in sheets])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "[Content_Types].xml", _content_types(len(sheets)))
        _add(archive, "_rels/.rels", _relations([("officeDocument", "xl/workbook.xml")]))
        _add(archive, "xl/workbook.xml", _workbook(names))
        parts = [("worksheet", f"worksheets/sheet{n + 1}.xml") for n in range(len(sheets))]
        _add(archive, "xl/_rels/workbook.xml.rels", _relations([*parts, ("styles", "styles.xml")]))
        _add(archive, "xl/styles.xml", _STYLES)
        for number, sheet in enumerate(sheets, start=1):
            _add(archive, f"xl/worksheets/sheet{number}.xml", "".join(_sheet(sheet)))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: str) -> None:
    entry = zipfile.ZipInfo(name)  # its date is 1980: the same content, the same bytes
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content.encode())


def _names(wanted: Sequence[str]) -> list[str]:
    """Names that are allowed and differ, whatever their case."""
    names: list[str] = []
    for name in wanted:
        base = _NOT_IN_NAMES.sub("_", _clean(name))[:_MOST_NAME] or "sheet"
        chosen, number = base, 2
        while chosen.casefold() in {other.casefold() for other in names}:
            chosen = f"{base[: _MOST_NAME - 4]}~{number}"
            number += 1
        names.append(chosen)
    return names


def _content_types(sheets: int) -> str:
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = [("/xl/workbook.xml", "sheet.main"), ("/xl/styles.xml", "styles")]
    parts += [(f"/xl/worksheets/sheet{n + 1}.xml", "worksheet") for n in range(sheets)]
    overrides = "".join(
        f'<Override PartName="{part}" ContentType="{kind}.{name}+xml"/>' for part, name in parts
    )
    return (
        f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )


def _relations(parts: Sequence[tuple[str, str]]) -> str:
    lines = "".join(
        f'<Relationship Id="r{number}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(parts, start=1)
    )
    return f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">{lines}</Relationships>'


def _workbook(names: Sequence[str]) -> str:
    sheets = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="r{number}"/>'
        for number, name in enumerate(names, start=1)
    )
    return (
        f'{_HEAD}<workbook xmlns="{_NAMESPACE}" xmlns:r="{_RELATIONS}">'
        f"<sheets>{sheets}</sheets></workbook>"
    )


def _sheet(sheet: Sheet) -> Iterator[str]:
    yield (
        f'{_HEAD}<worksheet xmlns="{_NAMESPACE}"><sheetViews><sheetView workbookViewId="0">'
        '<pane ySplit="1" topLeftCell="A2" state="frozen"/></sheetView></sheetViews><sheetData>'
    )
    for number, row in enumerate(sheet.rows, start=1):
        if number > MOST_ROWS:
            raise ValueError(f"sheet {sheet.name!r} has more than {MOST_ROWS} rows")
        style = ' s="1"' if number == 1 else ""
        cells = "".join(
            _cell(value, f"{column_name(column)}{number}", style)
            for column, value in enumerate(row, start=1)
        )
        yield f'<row r="{number}">{cells}</row>'
    yield "</sheetData></worksheet>"


def column_name(number: int) -> str:
    """A column's letters: 1 is A, 27 is AA."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _cell(value: Value, place: str, style: str) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"{style}><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"{style}><v>{value!r}</v></c>'
    text = escape(_clean(value)[:MOST_TEXT])
    return f'<c r="{place}" t="inlineStr"{style}><is><t xml:space="preserve">{text}</t></is></c>'


def _clean(text: str) -> str:
    """The text without what XML can't hold."""
    return _NOT_IN_XML.sub("�", text)
