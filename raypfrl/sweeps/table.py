"""A CSV file that is written while things break: it grows by whole lines, and its columns grow with its rows."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raypfrl.settings import SettingsError
from raypfrl.text import printable

Row = Mapping[str, Any]

PART = ".part"  # of a file that is being written; one that stays behind was a killed driver's


class Table:
    """Rows of text by column. Opening one writes nothing.

    The columns are those of the file, whichever version wrote it; a row that brings another one widens the file, and
    what a row lacks is an empty cell. A line cut off by a crash is not read, and dropped before the next one is
    written. ``key`` are the columns that name a row: one that is there twice is read once.

    Raises SettingsError for a damaged file.
    """

    def __init__(self, path: Path, key: Sequence[str]) -> None:
        self.path, self._key = path, tuple(key)
        self.columns: tuple[str, ...] = ()
        self._unsound = False  # whether the file holds what was not read
        self._seen = self._stamp()
        self.rows: list[dict[str, str]] = self._read() if self._seen else []

    def append(self, rows: Iterable[Row]) -> None:
        """Write the rows' lines with one call."""
        rows = list(rows)
        self.widen(rows)
        if self._unsound:
            self.replace(self.rows)
        cells = [{name: cell(row.get(name)) for name in self.columns} for row in rows]
        size = self.path.stat().st_size if self.path.exists() else 0
        header = "" if size else _line(self.columns)
        text = header + "".join(_line(row.values()) for row in cells)
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                file.write(text)
        except OSError:  # a full disk takes half a line
            os.truncate(self.path, size)
            raise
        self.rows += cells
        self._seen = self._stamp()

    def widen(self, rows: Iterable[Iterable[str]]) -> None:
        """Take the names of the rows among the columns: each stands before the one that follows it in its row."""
        columns = self.columns
        for row in rows:
            columns = _merged(columns, tuple(row))
        if columns != self.columns and self._seen:
            self._put(columns, self.rows)
        self.columns = columns

    def replace(self, rows: list[dict[str, str]]) -> None:
        """Put ``rows`` in place of all rows, in one step."""
        self._put(self.columns, rows)
        self.rows = rows

    def _put(self, columns: tuple[str, ...], rows: list[dict[str, str]]) -> None:
        lines = [_line(columns), *(_line(row.get(name, "") for name in columns) for row in rows)]
        write(self.path, "".join(lines).encode())
        self._unsound, self._seen = False, self._stamp()

    def check(self, row: Row, numbers: Iterable[str], words: Mapping[str, Container[str]]) -> None:
        """Raise SettingsError where a cell of ``numbers`` holds no number, or one of ``words`` none of those."""
        wrong = [name for name in numbers if row.get(name) and not _is_number(row[name])]
        wrong += [name for name, known in words.items() if name in row and row[name] not in known]
        if wrong:
            place = " ".join(row[name] for name in self._key)
            raise damaged(self.path, f"{wrong[0]} = {row[wrong[0]]!r} in the row of {place}")

    def changed(self) -> bool:
        """Whether another process has written the file since this one read or wrote it."""
        return self._stamp() != self._seen

    def _stamp(self) -> tuple[int, ...] | None:
        """What tells the file from what it was, without reading it; None where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns, found.st_ino

    def _read(self) -> list[dict[str, str]]:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        self._unsound = whole != data
        try:
            lines = list(csv.reader(io.StringIO(whole.decode(), newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:  # an open quote among them
            raise damaged(self.path, error) from None
        if not lines:
            return []
        self.columns = tuple(lines[0])
        if lacking := [name for name in self._key if name not in self.columns]:
            raise damaged(self.path, f"no column {', '.join(lacking)}")
        places = [self.columns.index(name) for name in self._key]
        round_ = self.columns.index("round") if "round" in self.columns else None
        rows = dict[tuple[str, ...], list[str]]()
        for number, cells in enumerate(lines[1:], 2):
            if len(cells) != len(self.columns) or not (
                round_ is None or cells[round_].isdecimal() or not cells[round_]
            ):
                raise damaged(self.path, f"line {number}")
            if rows.setdefault(tuple([cells[place] for place in places]), cells) is not cells:
                self._unsound = True
                if rows[tuple([cells[place] for place in places])] != cells:
                    raise damaged(self.path, f"line {number}: another row of the same {', '.join(self._key)}")
        return [dict(zip(self.columns, cells, strict=True)) for cells in rows.values()]


def damaged(path: Path, why: object) -> SettingsError:
    """What is said of a file that cannot be read."""
    return SettingsError(f"{path}: damaged ({why}); bring back a copy, or run anew into another --out")


def write(path: Path, data: bytes) -> None:
    """Replace a file in one step: it is the old one or the new one, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def cell(value: Any) -> str:
    """None is empty; a sequence is its entries separated by spaces; a float is written so that it reads back equal; a
    text is in one line."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return printable(" ".join(str(entry) for entry in value))
    return repr(float(value)) if isinstance(value, float) else printable(str(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python reads over


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(list(cells))
    return line.getvalue()


def _merged(columns: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """``columns`` and the names that are new, in the order of either."""
    if set(names) <= set(columns):
        return columns
    merged, place = list(columns), len(columns)
    for name in reversed(names):
        if name in merged:
            place = merged.index(name)
        else:
            merged.insert(place, name)
    return tuple(merged)
