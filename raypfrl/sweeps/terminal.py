"""What a sweep shows while it runs and when it ends: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import bisect
import heapq
import importlib.util
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from raypfrl.config import RunConfig
from raypfrl.sweeps.machine import cost
from raypfrl.sweeps.results import Results
from raypfrl.text import pasted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

EVERY = 30.0  # seconds between two lines of progress where there is no terminal
REDRAWN = 0.25  # seconds at least between two pictures on a terminal
SHOWN = 6  # running trials, and best points, of a picture; best points of a line
LISTED = 40  # points of the last table: the best
WIDE = 200  # columns where there is no terminal to ask

Point = Mapping[str, Any]


class Running(NamedTuple):
    """A trial between two evaluations: where it is, its return after adaptation, and what the last rounds gave."""

    round: int = 0
    after: float = math.nan
    trend: float = math.nan


class Progress:
    """How far a sweep is: the running trials and the best points. What comes with a result is counted at once, in a
    time that no sweep's size changes; it is shown now and then."""

    def __init__(self, configs: Sequence[RunConfig], labels: Mapping[str, str], unasked: int = 0) -> None:
        self._labels, self._seeds = labels, dict[str, int]()
        self._work: dict[str, tuple[int, int]] = {}  # and rounds, of the trials not ended
        self._count, self._whole = 0, 0
        self.expect(configs, unasked)
        self._running: dict[str, Running] = {}
        self._part: dict[str, float] = {}  # the work done of every running trial
        self._ended_work = 0.0
        self._scores: dict[str, list[float]] = defaultdict(list)  # of every point, in order
        self._medians: dict[str, float] = {}
        self._done, self._start, self._told = 0, time.perf_counter(), -math.inf
        self._first: tuple[float, float] | None = None  # when the first evaluation came, and the share done by then
        self._live = _live(self._picture) if sys.stderr.isatty() else None
        self._told = self._start if self._live is None else -math.inf

    def expect(self, configs: Sequence[RunConfig], unasked: int) -> None:
        """Count on these trials, and on so many more that a search has not asked for yet."""
        self._seeds |= {config.key(): config.seed for config in configs}
        work = {config.key(): (cost(config), config.rounds) for config in configs}
        self._work |= work
        self._count, self._unasked = self._count + len(work), unasked
        self._whole += sum(steps for steps, _ in work.values())

    def ended(self, key: str, metrics: Mapping[str, Any]) -> None:
        """Count a trial; a message (why it diverged or failed) gets a line of its own."""
        label = self._labels[key]
        self._done += 1
        self._part.pop(key, None)
        self._running.pop(key, None)
        self._ended_work += self._work.pop(key)[0]
        if metrics["status"] == "finished":
            bisect.insort(self._scores[label], metrics["after/return"])
            self._medians[label] = _middle(self._scores[label])
        elif metrics.get("message"):
            self.tell(f"{label}: {metrics['status']}: {metrics['message']}")

    def reached(self, key: str, metrics: Mapping[str, Any]) -> None:
        """Count an evaluation, and show where everything stands if it is time."""
        if key in self._work:
            work, rounds = self._work[key]
            before, after = self._running.get(key, Running()), metrics.get("after/return", math.nan)
            self._part[key] = work * metrics["round"] / rounds
            self._running[key] = Running(metrics["round"], after, after - before.after)
        now = time.perf_counter()
        self._first = self._first or (now, self._share())
        if now - self._told >= (EVERY if self._live is None else REDRAWN):
            self._told = now
            if self._live is None:
                points = [f"{label} {median:.2f}" for label, median in self._best()]
                self.tell("  ".join([self._headline(), *points]))
            else:
                self._live.refresh()

    def tell(self, line: str) -> None:
        """A line of its own."""
        if self._live is None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        else:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the picture away: the last table follows."""
        if self._live is not None:
            self._live.stop()

    def _share(self) -> float:
        whole = self._whole * (1 + self._unasked / max(self._count, 1)) or 1
        return (self._ended_work + sum(self._part.values())) / whole

    def _headline(self) -> str:
        """How many trials of how many, the time, and the time left by the work that is left."""
        now, share = time.perf_counter(), self._share()
        begun, before = self._first or (now, share)
        left = f", {clock((now - begun) * (1 - share) / (share - before))} left" if share > before + 0.01 else ""
        return f"{self._done} of {self._count + self._unasked} trials, {clock(now - self._start)}{left}"

    def _best(self) -> list[tuple[str, float]]:
        return heapq.nlargest(SHOWN, self._medians.items(), key=lambda point: _order(point[1]))

    def _picture(self) -> RenderableType:
        """The running trials, and the best points by the medians of their return after adaptation."""
        from rich.console import Group
        from rich.text import Text

        running = _table("running", "round", "return", "trend")
        for key, trial in list(self._running.items())[:SHOWN]:
            name = f"{self._labels[key]} seed={self._seeds[key]}"
            trend = "" if math.isnan(trial.trend) else f"{trial.trend:+.3f}"
            colour = "green" if trial.trend > 0 else "red" if trial.trend < 0 else ""
            rounds = f"{trial.round} of {self._work[key][1]}"
            running.add_row(Text(name), rounds, _number(trial.after, ".3f"), Text(trend, colour))
        if (more := len(self._running) - SHOWN) > 0:
            running.add_row(f"and {more} more", "", "", "")
        best = _table("best points", "seeds", "median")
        for place, (label, median) in enumerate(self._best()):
            row = Text(label), str(len(self._scores[label])), _number(median, ".3f")
            best.add_row(*row, style="" if place else "bold green")
        return Group(self._headline(), *([running] if self._running else []), *([best] if self._medians else []))


def points_of(
    results: Results, configs: Sequence[RunConfig], labels: Mapping[str, str], swept: Sequence[str]
) -> list[Point]:
    """The last table, one mapping a point, the best first: its label and swept settings, how many seeds finished and
    how many did not, and over those that did the medians before and after adaptation, the range, and success. A number
    that is not there is None."""
    trials: dict[str, list[tuple[RunConfig, Mapping[str, str]]]] = {}
    for config in configs:
        if row := results.row(key := config.key()):
            trials.setdefault(labels[key], []).append((config, row))
    points = []
    for label, of_point in trials.items():
        config, told = of_point[0][0], [row for _, row in of_point]
        ended = [row for row in told if row["status"] == "finished"]
        after = [float(row["after/return"]) for row in ended]
        points.append(
            {
                "point": label,
                **{name: getattr(config, name, None) for name in dict.fromkeys(("method", *swept))},
                "seeds": len(ended),
                "lost": len(told) - len(ended),
                "before": _median(ended, "before/return"),
                "after": statistics.median(after) if after else None,
                "lowest": min(after, default=None),
                "highest": max(after, default=None),
                "success": _median(ended, "after/success"),
            }
        )
    return sorted(points, key=lambda point: _order(point["after"]), reverse=True)


def show(points: Sequence[Point]) -> None:
    """Print the last table: one line a point, the best first and marked; where there are very many, the best."""
    told = [name for name in (points[0] if points else {}) if any(point[name] is not None for point in points)]
    settings = [name for name in told if name not in (*_OUTCOMES, "point")]
    lost = ["lost"] if any(point["lost"] for point in points) else []
    outcomes = [name for name in _MEASURED if name in told]  # not every population has a goal
    table = _table("", *settings, "seeds", *lost, *outcomes)
    for place, point in enumerate(points[:LISTED]):
        best = place == 0 and point["seeds"] > 0 and len(points) > 1
        table.add_row(
            "*" if best else "",
            *(_shown(point[name]) for name in (*settings, "seeds", *lost)),
            *(_number(point[name], ".0%" if name == "success" else ".2f") for name in outcomes),
            style="bold green" if best else "yellow" if point["lost"] else "",
        )
    console = _console(sys.stdout)
    console.print(table)
    notes = [
        f"and {len(points) - LISTED} more points: trials.csv has them all" * (len(points) > LISTED),
        "* best by after: the median over seeds of the return after adaptation" * (len(points) > 1),
        "lost: seeds that did not finish" * bool(lost),
    ]
    console.print(*filter(None, notes), sep="\n", highlight=False, end="\n" * any(notes))


NEEDS = "" if importlib.util.find_spec("pandas") else ", needs pip install 'raypfrl[analysis]'"


def where(folder: Path) -> str:
    """Where the results are, and the commands that open them, one a line."""
    opened_by = [
        ("sweep.json", f"raypfrl report {pasted(folder)}", f"a page with curves and tables{NEEDS}"),
        ("tune", f"tensorboard --logdir {pasted(folder / 'tune')}", "needs pip install tensorboard"),
        ("wandb", f"wandb leet {pasted(folder / 'wandb')}", "W&B in the terminal"),
        ("wandb", f"raypfrl sync {pasted(folder)}", "uploads to W&B what is not there yet"),
    ]
    lines = [f"  {command}  # {what}" for name, command, what in opened_by if (folder / name).exists()]
    return "\n".join([f"results in {pasted(folder)}; open them with", *lines])


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any: 4:07, 26:00:00."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


_MEASURED = ("before", "after", "lowest", "highest", "success")
_OUTCOMES = ("seeds", "lost", *_MEASURED)


def _live(picture: Any) -> Live:
    """A picture on standard error, drawn when it is told to."""
    from rich.live import Live

    live = Live(
        console=_console(sys.stderr), get_renderable=picture, auto_refresh=False, transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )  # fmt: skip
    live.start()
    return live


def _console(stream: Any) -> Console:
    """A terminal with its width and colours (none where NO_COLOR is set); else plain lines, as wide as they are."""
    from rich.console import Console

    return Console(file=stream) if stream.isatty() else Console(file=stream, force_terminal=False, width=WIDE)


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 or column == "method" else "right", overflow="fold")
    return table


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None or math.isnan(value) else f"{value:{form}}"


def _order(score: float | None) -> float:
    """What is no number comes last."""
    return -math.inf if score is None or math.isnan(score) else score


def _middle(scores: Sequence[float]) -> float:
    """The median of scores in order."""
    return (scores[(len(scores) - 1) // 2] + scores[len(scores) // 2]) / 2


def _median(rows: Sequence[Mapping[str, str]], column: str) -> float | None:
    values = [float(row.get(column) or "nan") for row in rows]
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else None
