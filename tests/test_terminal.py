"""What a sweep shows: a live picture where there is a terminal, plain lines where there is none, one last table."""

from __future__ import annotations

import io
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from raypfrl import RunConfig
from raypfrl.sweeps import Sweep, terminal
from raypfrl.sweeps.results import Results
from raypfrl.sweeps.sweep import label
from raypfrl.sweeps.terminal import Progress, clock, points_of, show

BASE = {"population": "gridworld", "oracle": "exact", "n": 2, "rounds": 400}
SWEPT = ("method", "m_h", "curvature_clip")
POINTS = Sweep(
    base=BASE,
    grids=[{"method": ["exact"], "m_h": [10, 20, 50, 100, 1000], "curvature_clip": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0]}],
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, stream: str = "stderr") -> Terminal:
    """A terminal of 80 columns in the place of a stream."""
    for name, value in {"COLUMNS": "80", "LINES": "50", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, stream, screen := Terminal())
    monkeypatch.setattr(terminal, "REDRAWN", 0.0)
    return screen


def progress(configs: list[RunConfig]) -> Progress:
    return Progress(configs, {config.key(): label(config, SWEPT) for config in configs})


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def seen(screen: Terminal) -> list[str]:
    """The last picture, line by line."""
    return plain(screen.getvalue()).rpartition("trials,")[2].splitlines()


def at(round: int, after: float, status: str = "running") -> dict[str, Any]:
    return {"round": round, "after/return": after, "status": status}


def finish(one: Progress, config: RunConfig, after: float) -> None:
    one.ended(config.key(), at(400, after, "finished"))
    one.reached(config.key(), at(400, after, "finished"))


def test_running_trials_and_the_best_points_first(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_a_terminal(monkeypatch)
    configs = POINTS.trials([0, 1])
    one = progress(configs)
    for config, after in zip(configs[:20:2], (0.3, 0.9, 0.5, 0.1, 0.2, 0.4, 0.6, 0.7, 0.8, float("nan")), strict=True):
        finish(one, config, after)
    one.reached(configs[1].key(), at(100, 0.25))
    one.reached(configs[1].key(), at(120, 0.375))
    for config in configs[21:35]:
        one.reached(config.key(), at(40, 0.5))
    lines = seen(screen)
    assert max(map(len, lines)) <= 80
    (running,) = (line for line in lines if line.startswith("exact m_h=10 curvature_clip=0.125 seed=1"))
    assert running.split()[-5:] == ["120", "of", "400", "0.375", "+0.125"]
    assert any(line.startswith("and 9 more") for line in lines)
    best = lines[next(n for n, line in enumerate(lines) if line.startswith("best points")) + 1 :]
    assert [line.split()[-1] for line in best if line.strip()] == ["0.900", "0.800", "0.700", "0.600", "0.500", "0.400"]
    one.tell("a line")
    one.close()
    assert "a line\n" in plain(screen.getvalue())
    assert screen.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in screen.getvalue()  # the cursor is there again


@pytest.mark.parametrize("no_color", [False, True])
def test_colour_where_a_terminal_has_it(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    screen = on_a_terminal(monkeypatch)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    one = progress(configs := POINTS.trials([0]))
    finish(one, configs[0], 0.5)
    one.close()
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]m", screen.getvalue())) is not no_color


def test_a_result_takes_the_same_whatever_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn, and no point but its own looked at, until it is time."""
    on_a_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "REDRAWN", 3600.0)
    one = progress(configs := POINTS.trials(range(4)))
    one.reached(configs[0].key(), at(1, 0.1))
    with monkeypatch.context() as undrawn:
        undrawn.setattr(one, "_best", None)
        for config in configs[1:]:
            one.reached(config.key(), at(1, 0.1))
            finish(one, config, 0.5)
    one.close()


def test_without_a_terminal_plain_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    times = itertools.count(0.0, 40.0)
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    one = progress(configs := POINTS.trials([0]))
    for config in configs[:3]:
        finish(one, config, 0.5)
    one.ended(configs[3].key(), {"status": "diverged", "message": "[bold]too far[/]"})
    one.close()
    told = capsys.readouterr().err.splitlines()
    assert re.match(r"1 of 30 trials, \d+:\d\d  exact m_h=10 curvature_clip=0.125 0.50$", told[0]), told[0]
    assert told[-1] == "exact m_h=10 curvature_clip=1: diverged: [bold]too far[/]"
    assert not any("\x1b" in line for line in told)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (247.9, "4:07"), (3600, "1:00:00"), (93784, "26:03:04")])
def test_hours_are_hours(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def table(folder: Path, configs: list[RunConfig], lost: int = 0) -> list[terminal.Point]:
    """The last table of a sweep whose points get better one by one; the first trials diverged."""
    results = Results(folder, "sweep")
    place = {name: number for number, name in enumerate(dict.fromkeys(label(config, SWEPT) for config in configs))}
    for number, config in enumerate(configs):
        score = place[label(config, SWEPT)] + config.seed / 4
        told = {"status": "finished", "before/return": 0.5, "after/return": score, "after/success": 0.5}
        results.end(config.key(), config, told if number >= lost else {"status": "diverged"})
    return points_of(results, configs, {config.key(): label(config, SWEPT) for config in configs}, SWEPT)


def test_thirty_points_are_readable_at_eighty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = table(tmp_path, POINTS.trials([0, 1, 2]), lost=3)
    screen = on_a_terminal(monkeypatch, "stdout")
    show(points)
    lines = plain(screen.getvalue()).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    rows = [line.split() for line in lines if " exact " in line]
    assert len(rows) == 30
    assert rows[0][:4] == ["*", "exact", "1000", "4"]
    assert rows[0][4:] == ["3", "0", "0.50", "29.25", "29.00", "29.50", "50%"]
    assert [float(row[-4]) for row in rows[:-1]] == [29.25 - n for n in range(29)]
    assert rows[-1] == ["exact", "10", "0.125", "0", "3"]


def test_a_point_that_lost_all_its_seeds_comes_last_and_is_no_best(tmp_path: Path) -> None:
    points = table(tmp_path, POINTS.trials([0, 1]), lost=2)
    assert points[0]["point"] == "exact m_h=1000 curvature_clip=4"
    assert points[-1] == {
        "point": "exact m_h=10 curvature_clip=0.125", "method": "exact", "m_h": 10, "curvature_clip": 0.125, "seeds": 0,
        "lost": 2, "before": None, "after": None, "lowest": None, "highest": None, "success": None,
    }  # fmt: skip


def test_what_no_point_has_is_no_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not every population has a goal."""
    show(
        [{**point, "success": None, "curvature_clip": None} for point in table(tmp_path, POINTS.trials([0, 1]))],
    )
    heads = capsys.readouterr().out.splitlines()[0].split()
    assert heads == ["method", "m_h", "seeds", "before", "after", "lowest", "highest"]


def test_a_thousand_points_are_the_best_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = {"method": ["exact"], "m_h": list(range(1, 41)), "curvature_clip": [n / 8 for n in range(1, 26)]}
    points = table(tmp_path, Sweep(base=BASE, grids=[grid]).trials([0]))
    assert len(points) == 1000
    show(points)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50
    assert "and 960 more points: trials.csv has them all" in lines
    assert not any("\x1b" in line for line in lines)
