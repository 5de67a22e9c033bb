"""One federation round as a diagram (Fig. 3)."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from analysis.figures import style

# The three lines of a stage's box, left to right: what is drawn, and what is made of it.
STAGES = (
    (
        "inner batch",
        r"$\mathcal{D}_{\mathrm{in}} \sim q_i(\cdot\,;\theta)$",
        r"$\tilde\theta = \theta + \alpha\,\hat g_{\mathrm{in}}$",
    ),
    ("outer batch", r"$\mathcal{D}_{\mathrm{out}} \sim q_i(\cdot\,;\tilde\theta)$", r"$\hat g_{\mathrm{out}}$"),
    ("Hessian batch", r"$\mathcal{D}_{\mathrm{h}} \sim q_i(\cdot\,;\theta)$", r"$\hat H\,\hat g_{\mathrm{out}}$"),
    (
        "local step",
        r"$d = \hat g_{\mathrm{out}} + \alpha \hat H\,\hat g_{\mathrm{out}}$",
        r"$\theta \leftarrow \theta + \beta\,d$",
    ),
)
AGENTS = (("1", 41.5, 8.5), ("i", 15.0, 22.0), ("n", 2.0, 8.5))  # name, bottom, height of its box
LEFT = 34.0  # where the agents' boxes begin


@style.styled
def draw() -> Figure:
    """Broadcast, tau local meta-policy-gradient steps on every agent, average."""
    figure = style.sheet(7.4, 3.8)
    panel = figure.subplots()
    panel.set(xlim=(0, 100), ylim=(0, 52))
    panel.axis("off")
    _box(panel, 1, 15, 18, 22, style.BLACK, "#F4F4F4")
    panel.text(10, 33.2, "server", ha="center", weight="bold", fontsize=9.5)
    panel.text(10, 28.6, "holds only $\\theta^k$", ha="center", fontsize=8)
    panel.text(
        10, 23.4, r"$\theta^{k+1} = \frac{1}{n}\sum_i\, \theta_i^{k,\tau}$", ha="center", va="center", fontsize=9.5
    )
    panel.text(10, 17.2, "sees no trajectory", ha="center", fontsize=7.5, color=style.GREY)
    for name, bottom, height in AGENTS:
        _box(panel, LEFT, bottom, 65, height, style.GREY, "white")
        _messages(panel, bottom + height / 2, name)
    for y in (39.3, 12.8):
        panel.text(66, y, r"$\cdots$", ha="center", va="center", fontsize=12, color=style.GREY)
    for name, bottom, height in (AGENTS[0], AGENTS[2]):
        panel.text(36, bottom + height / 2, f"agent ${name}$", va="center", weight="bold")
        panel.text(
            47,
            bottom + height / 2,
            "the same $\\tau$ steps on its own MDP, fresh batches",
            va="center",
            color=style.GREY,
        )
    _local_steps(panel)
    style.caption(
        figure,
        "One round of Algorithm 1. First order leaves the Hessian batch out ($d = \\hat g_{\\mathrm{out}}$). "
        "A round moves 2d floats per agent, whatever $\\tau$, H and the batch sizes are.",
    )
    return figure


def _local_steps(panel: Any) -> None:
    panel.text(36, 33.3, "agent $i$", weight="bold")
    panel.text(47, 33.3, r"starts at $\theta = \theta^k$; every batch is drawn afresh:", color=style.GREY)
    width, gap, y = 14.2, 1.9, 20.3
    for number, (title, batch, result) in enumerate(STAGES):
        x = 36 + number * (width + gap)
        last = number == len(STAGES) - 1
        _box(panel, x, y, width, 11, style.VERMILLION if last else style.BLUE, "white")
        middle = x + width / 2
        panel.text(middle, y + 8.7, title, ha="center", va="center", fontsize=7, color=style.GREY)
        panel.text(middle, y + 5.6, batch, ha="center", va="center", fontsize=7.4)
        panel.text(middle, y + 2.2, result, ha="center", va="center", fontsize=7.8)
        if not last:
            _arrow(panel, (x + width, y + 5.5), (x + width + gap, y + 5.5), style.BLACK, mutation=6)
    first, final = 36 + width / 2, 36 + 3 * (width + gap) + width / 2
    panel.plot([final, final, first], [y, 17.4, 17.4], color=style.BLACK, linewidth=0.9)
    _arrow(panel, (first, 17.4), (first, y), style.BLACK, mutation=6)
    panel.text(
        (first + final) / 2,
        17.4,
        r" repeat $\tau$ times ",
        ha="center",
        va="center",
        fontsize=7.5,
        bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
    )


def _messages(panel: Any, y: float, name: str) -> None:
    """Down: the broadcast; up: the agent's result."""
    near = {"1": 33.5, "i": 26.0, "n": 18.5}[name]
    _arrow(panel, (19.2, near + 0.9), (LEFT, y + 0.9), style.BLUE)
    _arrow(panel, (LEFT, y - 1.3), (19.2, near - 1.3), style.VERMILLION, dash=(0, (4, 2)))
    if name == "i":
        panel.text(26.6, y + 2, r"$\theta^k$", ha="center", va="bottom", color=style.BLUE)
        panel.text(26.6, y - 2.4, rf"$\theta_{name}^{{k,\tau}}$", ha="center", va="top", color=style.VERMILLION)


def _box(panel: Any, x: float, y: float, width: float, height: float, edge: str, face: str) -> None:
    panel.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1", edgecolor=edge, facecolor=face)
    )


def _arrow(panel: Any, start: Any, end: Any, colour: str, dash: Any = "-", mutation: float = 9) -> None:
    panel.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", color=colour, linestyle=dash, mutation_scale=mutation, shrinkA=0, shrinkB=0,
            linewidth=1.2,
        )
    )  # fmt: skip
