"""Tables: whole lines, columns that grow, and what is read after a cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from raypfrl import SettingsError
from raypfrl.sweeps.table import Table, write


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path: Path) -> None:
    table = Table(tmp_path / "t.csv", ("a", "b"))
    table.append([{"a": 1, "b": 0.1}, {"a": 2}])
    whole = table.path.read_text()
    assert whole == "a,b\n1,0.1\n2,\n"
    table.path.write_text(whole + "3,0")
    again = Table(table.path, ("a", "b"))
    assert again.rows == [{"a": "1", "b": "0.1"}, {"a": "2", "b": ""}]
    assert table.path.read_text() == whole + "3,0", "reading writes nothing: another process may be writing that line"
    again.append([{"a": 4}])
    assert table.path.read_text() == whole + "4,\n"
    with pytest.raises(SettingsError, match=r"damaged \(no column c\)"):
        Table(table.path, ("a", "c"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "f", b"old")

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "f", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("appended", "text"),
    [
        ([["ab"], ["ab"]], "a,b\na1,b1\na2,b2\n"),
        ([["ac"], ["abc"]], "a,b,c\na1,,c1\na2,b2,c2\n"),  # before what follows it
        ([["ac"], ["abc"], ["aBc"]], "a,b,B,c\na1,,,c1\na2,b2,,c2\na3,,B3,c3\n"),  # then in order of appearance
        ([["a"], ["ab"]], "a,b\na1,\na2,b2\n"),
        ([["ab"], ["a"]], "a,b\na1,b1\na2,\n"),
        ([["a", "ab"]], "a,b\na1,\na2,b2\n"),
    ],
)
def test_columns_grow_with_the_rows(tmp_path: Path, appended: list[list[str]], text: str) -> None:
    table, number = Table(tmp_path / "t.csv", ("a",)), 0
    for batch in appended:
        rows = [{name: f"{name}{n}" for name in row} for n, row in enumerate(batch, number + 1)]
        table.append(rows)
        number += len(batch)
    assert table.path.read_text() == text
    assert Table(table.path, ("a",)).columns == table.columns


def test_a_row_that_is_there_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,0.1\n2,x\n1,0.1\n")
    table = Table(path, ("a",))
    assert [row["a"] for row in table.rows] == ["1", "2"]
    table.append([{"a": 3}])
    assert path.read_text() == "a,b\n1,0.1\n2,x\n3,\n"
    path.write_text("a,b\n1,0.1\n1,0.2\n")
    with pytest.raises(SettingsError, match=r"damaged \(line 3: another row of the same a\)"):
        Table(path, ("a",))


@pytest.mark.parametrize("message", ["plain", "", 'é "x,\ny"\r\n\0\udce9', '"', "\n", "a\n"])
def test_no_cut_loses_what_is_written_after_it(tmp_path: Path, message: str) -> None:
    """A table cut off at any byte, as by a full disk or a machine that went down: what is written then is read again,
    and of what was there nothing but the line that the cut has touched is missing."""
    path, rows = tmp_path / "t.csv", [{"trial": f"t{n}", "round": n, "message": message} for n in range(3)]
    table = Table(path, ("trial",))
    table.append(rows)
    whole = path.read_bytes()
    assert whole.count(b"\n") == 4
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        Table(path, ("trial",)).append([{"trial": "new", "round": 9, "message": message}])
        kept = [f"t{n}" for n in range(3) if ends[n + 1] <= size]
        again = Table(path, ("trial",)).rows
        assert [row["trial"] for row in again] == [*kept, "new"]
        assert len({row["message"] for row in again}) == 1


def test_a_line_that_an_older_version_broke_in_two_is_named_where_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('trial,message\na,"one\ntwo"\n')
    assert Table(path, ("trial",)).rows == [{"trial": "a", "message": "one\ntwo"}]
    path.write_text('trial,message\na,"one\n')
    with pytest.raises(SettingsError, match=r"damaged \(unexpected end of data"):
        Table(path, ("trial",))
