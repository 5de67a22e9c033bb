"""``raypfrl rollout``: a film of what renders, paths in the plane, and one line where there is neither."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from misbehaving import Walk

from analysis.frames import load
from analysis.report import content
from raypfrl import Training
from raypfrl.cli import main
from raypfrl.config import RunConfig
from raypfrl.federation import build_agent
from raypfrl.film import film
from raypfrl.oracles.episodes import made
from raypfrl.populations import Variant, environments
from raypfrl.settings import SettingsError
from raypfrl.streams import Purpose, Stream

SMALL = ["--set", "rounds=1", "--set", "m_adapt=[0,3]", "--set", "m_eval=2", "--actors", "0", "--tracking", "off"]
CARTPOLE = {"population": "gymnasium", "method": "first_order", "n": 2, "horizon": 12, "hidden": (4,), "m_in": 4,
            "m_out": 4, "rounds": 1, "m_adapt": (0, 3), "m_eval": 2, "vary": "length"}  # fmt: skip


def ran(folder: Path, *settings: str) -> Path:
    """A finished run."""
    given = [part for setting in settings[1:] for part in ("--set", setting)]
    assert main(["run", settings[0], "first_order", *SMALL, *given, "--out", str(folder)]) == 0
    return folder


def pictures(path: Path) -> list[Any]:
    """The film's pictures and how long each stands."""
    from PIL import Image

    with Image.open(path) as image:
        found = []
        for at in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(at)
            found.append((np.array(image.convert("RGB")), image.info["duration"]))
    return found


def test_a_film_shows_an_agent_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The episodes that evaluation plays, from one start, side by side; and the report shows it."""
    pytest.importorskip("PIL")
    pytest.importorskip("pygame")
    small = ("n=2", "horizon=12", "hidden=[4]", "m_in=4", "m_out=4", "vary=length")
    folder = ran(tmp_path / "run", "gymnasium", *small)
    start, end = (line for line in capsys.readouterr().out.splitlines() if line.startswith("round"))
    assert "a second" not in start, "nothing was learned on yet"
    assert float(re.fullmatch(r"round 1  .*  (\S+) environment steps a second", end)[1]) > 0  # type: ignore[index]
    command = ["rollout", str(folder), "--agent", "1", "--m-adapt", "3", "--episodes", "2"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{folder / 'rollouts.gif'}\n"
    first = (folder / "rollouts.gif").read_bytes()
    assert main(command) == 0
    assert (folder / "rollouts.gif").read_bytes() == first, "another film of the same run"
    config = RunConfig(**CARTPOLE)
    training = Training(config)
    assert [*training][-1]["status"] == "finished"
    agent, call = build_agent(config, 1), training.server.call(1)
    stream, population = Stream(0, 1, 1, 0, Purpose.EVALUATE), config.build_population()
    lengths = []
    for m in (0, 3):
        theta = agent.personal(1, call.down, call.kept, m)
        oracle: Any = agent.oracle._oracle  # type: ignore[attr-defined]
        lengths.append(oracle.sample(theta, 2, stream).lengths)
    shown = pictures(folder / "rollouts.gif")
    assert sum(stands for _, stands in shown) == 20 * np.max(lengths, axis=0).sum() + 2 * 600, "as CartPole says"
    assert shown[0][0].shape == (216, 2 * 340, 3)
    start, panel = shown[0][0][16:], 340
    assert np.array_equal(start[:, :panel], start[:, panel:]), "the two phases do not begin alike"
    assert len(np.unique(start.reshape(-1, 3), axis=0)) > 3, "nothing is drawn"
    assert not np.array_equal(shown[0][0], shown[5][0])
    assert population.tasks[1].variant.attributes == {"length": 1.5}  # type: ignore[union-attr]
    assert content(load(folder))["film"].startswith("data:image/gif;base64,R0lGOD")


def test_paths_in_the_plane_come_with_their_film(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    folder = ran(tmp_path / "run", "navigation", "n=2", "horizon=4", "hidden=[4]", "m_in=4", "m_out=4", "tau=1")
    assert content(load(folder))["film"] == ""
    capsys.readouterr()
    command = ["rollout", str(folder), "--m-adapt", "3", "--episodes", "2"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{folder / 'rollouts.csv'}\n{folder / 'rollouts.gif'}\n"
    assert sum(stands for _, stands in pictures(folder / "rollouts.gif")) == 2 * (5 * 120 + 600)
    paths = (folder / "rollouts.csv").read_bytes()
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(command) == 0, "the paths need no film"
    assert capsys.readouterr().out.endswith("a film needs Pillow: pip install 'raypfrl[render]'\n")
    assert (folder / "rollouts.csv").read_bytes() == paths


def test_where_there_is_nothing_to_see_one_line_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ran(tmp_path / "run", "gymnasium", "env_id=tiny/Walk-v0", "n=1", "horizon=4", "m_in=4", "m_out=4")
    capsys.readouterr()
    assert main(["rollout", str(folder)]) == 2
    assert capsys.readouterr().err == "raypfrl: no film of tiny/Walk-v0: it does not render rgb_array\n"
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["rollout", str(folder)]) == 2
    assert capsys.readouterr().err == "raypfrl: a film needs Pillow: pip install 'raypfrl[render]'\n"
    assert not list(folder.glob("rollouts*"))


def unpaintable(render: Any) -> type[Walk]:
    class Unpaintable(Walk):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__()
            self.render_mode = render_mode

        def render(self) -> Any:
            return render()

    return Unpaintable


def raises() -> Any:
    raise OSError("no\ndisplay")


@pytest.mark.parametrize(
    ("render", "says"),
    [
        (raises, r"no film of tiny/Unpaintable-v0: it does not render here: OSError: no\\ndisplay"),
        (lambda: None, r"it renders object \(\), and no picture"),
        (lambda: np.zeros((4, 4)), r"it renders float64 \(4, 4\), and no picture"),
    ],
)
def test_an_environment_that_cannot_render_is_told_in_one_line(render: Any, says: str) -> None:
    import gymnasium

    gymnasium.registry.pop("tiny/Unpaintable-v0", None)
    gymnasium.register(id="tiny/Unpaintable-v0", entry_point=unpaintable(render))
    population = environments("x", "tiny/Unpaintable-v0", [Variant()], gamma=0.9, horizon=3)
    assert made(population.train[0]).metadata["render_modes"] == ["rgb_array"]  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=says) as told:
        film(population, 0, {"before": population.initial()}, Stream(0, 0, 0, 0, Purpose.EVALUATE), 1)
    assert "\n" not in str(told.value)
