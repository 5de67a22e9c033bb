"""Rollouts of an unseen agent before and after its adaptation step, and trained from scratch (Fig. 8), as a figure and
as an animation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from analysis.figures import style
from analysis.frames import ResultsError
from raypfrl.populations.navigation import GOAL_RADIUS

FILE = "few_shot/rollouts.csv"
COLUMNS = ("goal_x", "goal_y", "phase", "episode", "h", "x", "y")
PHASES = {"before": style.PURPLE, "after": style.BLUE, "from scratch": style.BLACK}
SCRATCH = ", and trained alone from scratch with as many trajectories as the step has"


def _phases(frame: pd.DataFrame) -> list[str]:
    return [phase for phase in PHASES if phase in set(frame["phase"])]


def read(path: Path) -> pd.DataFrame:
    """``rollouts.csv``: one row a position, h = 0..H, of an episode before or after adaptation."""
    if not path.is_file():
        raise ResultsError(f"{path.parent}: no {path.name}; write it with `raypfrl rollout {path.parent}`")
    frame = pd.read_csv(path)
    lacking = [c for c in COLUMNS if c not in frame]
    if lacking or not {"before", "after"} <= set(frame["phase"]) <= set(PHASES):
        raise ResultsError(f"{path}: needs the columns {', '.join(COLUMNS)}, with phases {', '.join(PHASES)}")
    return frame


@style.styled
def draw(frame: pd.DataFrame) -> Figure:
    """All episodes of ``rollouts.csv``, one panel a phase."""
    phases = _phases(frame)
    figure, axes = style.panels(len(phases), 3.3 * len(phases), 4.0)
    for panel, phase in zip(axes, phases, strict=True):
        chosen = frame[frame["phase"] == phase]
        reached = 0
        for _, path in chosen.groupby("episode"):
            path = path.sort_values("h")
            hit = _hits(path)
            reached += hit
            panel.plot(
                path["x"], path["y"], color=PHASES[phase], linewidth=0.9, alpha=0.75 if hit else 0.9,
                linestyle="-" if hit else (0, (2, 1.5)), zorder=3,
            )  # fmt: skip
            panel.plot(
                path["x"].iloc[0],
                path["y"].iloc[0],
                "o",
                markerfacecolor="white",
                markeredgecolor=style.GREY,
                markersize=3.5,
                zorder=4,
            )
            panel.plot(path["x"].iloc[-1], path["y"].iloc[-1], "o", color=PHASES[phase], markersize=4, zorder=5)
        _scene(panel, frame, f"{phase}: {reached} of {chosen['episode'].nunique()} reach the goal")
    axes[0].set_ylabel("$y$")
    style.caption(
        figure,
        f"An unseen agent, before and after its adaptation step{SCRATCH if len(phases) > 2 else ''}. "
        f"{frame['episode'].nunique()} episodes of {frame['h'].max() + 1} decisions from the same "
        "starts (white), to where they end (filled); dashed: never in the goal region (shaded).",
    )
    return figure


def animate(frame: pd.DataFrame, path: Path) -> None:
    """The same episodes, the phases side by side, decision by decision, as a GIF. Needs Pillow."""
    with mpl.rc_context({**style.RC, "savefig.dpi": 80}):
        phases = _phases(frame)
        figure, axes = style.panels(len(phases), 3.0 * len(phases), 3.4)
        tails: list[tuple[Any, Any, pd.DataFrame]] = []
        for panel, phase in zip(axes, phases, strict=True):
            _scene(panel, frame, phase if phase == "from scratch" else f"{phase} adaptation")
            for _, episode in frame[frame["phase"] == phase].groupby("episode"):
                (line,) = panel.plot([], [], color=PHASES[phase], linewidth=0.9, alpha=0.45)
                (head,) = panel.plot([], [], "o", color=PHASES[phase], markersize=4.5)
                tails.append((line, head, episode.sort_values("h")))

        def update(h: int) -> list[Any]:
            for line, head, episode in tails:
                line.set_data(episode["x"][: h + 1], episode["y"][: h + 1])
                head.set_data(episode["x"][h : h + 1], episode["y"][h : h + 1])
            return [artist for line, head, _ in tails for artist in (line, head)]

        last = int(frame["h"].max())
        film = FuncAnimation(figure, update, frames=[*range(last + 1), *[last] * 6], blit=False)
        film.save(path, writer=PillowWriter(fps=6), dpi=80)


def _scene(panel: Any, frame: pd.DataFrame, title: str) -> None:
    goal = (frame["goal_x"].iloc[0], frame["goal_y"].iloc[0])
    panel.add_patch(Circle(goal, GOAL_RADIUS, facecolor=style.GREEN, alpha=0.25, linewidth=0, zorder=1))
    panel.plot(*goal, "*", color=style.GREEN, markersize=9, zorder=6)
    panel.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="$x$", title=title)
    panel.set_box_aspect(1)
    panel.grid(False)
    panel.spines[["top", "right"]].set_visible(True)


def _hits(path: pd.DataFrame) -> bool:
    return bool((((path["x"] - path["goal_x"]) ** 2 + (path["y"] - path["goal_y"]) ** 2) <= GOAL_RADIUS**2).any())
