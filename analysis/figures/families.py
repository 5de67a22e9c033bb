"""The two task families: the gridworld's goals (Fig. 4) and the navigation arc (Fig. 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from analysis.figures import style
from raypfrl.populations import gridworld, navigation
from raypfrl.populations.gridworld import SIZE
from raypfrl.populations.navigation import ARC, ARC_RADIUS, DIRECTIONS, GOAL_RADIUS, STEP

TRAIN: Any = {"facecolor": style.BLUE, "alpha": 0.8}
HELD_OUT: Any = {"facecolor": "white", "edgecolor": style.VERMILLION, "hatch": "////", "linewidth": 0.8}


@style.styled
def draw() -> Figure:
    """Training and held-out goals of both families, from the populations themselves."""
    figure, axes = style.panels(2, 7.0, 3.75)
    _grid(axes[0])
    _box(axes[1])
    for panel in axes:
        panel.set_aspect("equal")
        panel.grid(False)
        panel.spines[["top", "right"]].set_visible(True)
    handles = [Rectangle((0, 0), 1, 1, label="training goal", **TRAIN)]
    handles.append(Rectangle((0, 0), 1, 1, label="held-out goal", **HELD_OUT))
    style.legend(figure, handles, [handle.get_label() for handle in handles], 2)
    style.caption(
        figure,
        "Agents differ only in their goal. (a) starts anywhere but on the goal and moves one cell up, down, left or "
        f"right; (b) starts anywhere and moves {STEP:g} in one of {DIRECTIONS} directions (arrows, to scale). "
        f"The reward is 1 at every decision in the goal cell, or within {GOAL_RADIUS:g} of the goal (shaded, dashed).",
    )
    return figure


def _goal(task: Any) -> Any:
    """A row and a column, or x and y."""
    return task.env_kwargs["goal"]


def _grid(panel: Any) -> None:
    population = gridworld()
    for tasks, look in ((population.train, TRAIN), (population.held_out, HELD_OUT)):
        for number, task in enumerate(tasks, 1):
            row, column = _goal(task)
            panel.add_patch(Rectangle((column + 0.08, row + 0.08), 0.84, 0.84, **look))
            if look is TRAIN:
                panel.text(column + 0.5, row + 0.5, str(number), color="white", ha="center", va="center", weight="bold")
    for k in range(1, SIZE):
        panel.axhline(k, color="#BBBBBB", linewidth=0.8, zorder=0)
        panel.axvline(k, color="#BBBBBB", linewidth=0.8, zorder=0)
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        _arrow(panel, (2.5, 2.5), (2.5 + dx, 2.5 + dy))
    panel.set(xlim=(0, SIZE), ylim=(SIZE, 0), xticks=[], yticks=[])
    panel.set_title(f"(a) gridworld: {len(population.train)} agents, {SIZE} × {SIZE} cells")


def _box(panel: Any) -> None:
    population = navigation()
    goal: Any
    for number, task in enumerate(population.train, 1):
        goal = np.array(_goal(task))
        panel.add_patch(Circle(goal, GOAL_RADIUS, facecolor=style.BLUE, alpha=0.16, linewidth=0))
        panel.plot(*goal, "o", color=style.BLUE, markersize=6.5, zorder=4)
        look: Any = {"fontsize": 7.5, "color": style.BLUE, "weight": "bold", "ha": "center", "va": "center"}
        panel.text(*(goal * 1.13), str(number), zorder=5, **look)
    for task in population.held_out:
        goal = np.array(_goal(task))
        edge: Any = {"facecolor": "none", "edgecolor": style.VERMILLION, "linestyle": (0, (3, 2))}
        panel.add_patch(Circle(goal, GOAL_RADIUS, zorder=3, **edge))
        panel.plot(*goal, "s", markerfacecolor="white", markeredgecolor=style.VERMILLION, markersize=5, zorder=5)
    angles = np.linspace(-ARC, ARC, 60)
    panel.plot(ARC_RADIUS * np.cos(angles), ARC_RADIUS * np.sin(angles), color=style.GREY, linewidth=1, zorder=2)
    start = np.array([-0.45, 0.0])
    for angle in 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS:
        _arrow(panel, start, start + STEP * np.array([np.cos(angle), np.sin(angle)]))
    panel.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[-1, 0, 1], yticks=[-1, 0, 1], xlabel="$x$", ylabel="$y$")
    panel.set_title(f"(b) navigation: {len(population.train)} agents, one arc")


def _arrow(panel: Any, start: Any, end: Any) -> None:
    look = {"arrowstyle": "-|>", "color": "#333333", "lw": 0.9, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", end, start, zorder=3, arrowprops=look)
