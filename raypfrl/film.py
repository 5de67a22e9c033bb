"""Episodes of one agent as a film, phase beside phase: any environment that renders ``rgb_array``."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from raypfrl.oracles import ORACLES
from raypfrl.oracles.episodes import made, named
from raypfrl.policies import Vector
from raypfrl.populations import Population, Simulated, Task
from raypfrl.populations.environments import closed
from raypfrl.populations.spaces import Actions
from raypfrl.settings import SettingsError
from raypfrl.streams import Stream
from raypfrl.text import cause

HEIGHT = 200  # pixels of a picture
MOST = 150  # pictures of an episode; of longer ones every second, third, ...
PAUSE = 600  # milliseconds on an episode's last picture


class Episode(NamedTuple):
    """The pictures before each decision and after the last, (N + 1, height, width, 3) uint8, and the sum of rewards."""

    pictures: list[NDArray[np.uint8]]
    score: float


def film(population: Population, agent: int, phases: Mapping[str, Vector], stream: Stream, episodes: int) -> bytes:
    """A GIF of the stream's first episodes, each from the same start under every phase's theta, side by side.

    Raises SettingsError, in one line, where it cannot be: Pillow is not there, or the environment renders nothing.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise SettingsError("a film needs Pillow: pip install 'raypfrl[render]'") from None
    env = _rendering(population.tasks[agent])
    played = {name: _played(population, agent, env, theta, stream, episodes) for name, theta in phases.items()}
    # A GIF counts in hundredths of a second, and browsers show no more than 50 pictures in one.
    stands = max(10 * round(100 / (env.metadata.get("render_fps") or 30)), 20)
    closed(env)
    panels = [_panels(number, {name: each[number] for name, each in played.items()}) for number in range(episodes)]
    stride = max(-(-len(one) // MOST) for one in panels)
    shown: list[Any] = []
    durations: list[int] = []
    for one in panels:
        kept = [*one[:-1:stride], one[-1]]
        shown += [Image.fromarray(picture).quantize(64, Image.Quantize.FASTOCTREE) for picture in kept]
        durations += [stride * stands] * (len(kept) - 1) + [PAUSE]
    out = io.BytesIO()
    shown[0].save(out, "GIF", save_all=True, append_images=shown[1:], duration=durations, loop=0)
    return out.getvalue()


def _played(
    population: Population, agent: int, env: Any, theta: Vector, stream: Stream, episodes: int
) -> list[Episode]:
    """The episodes that the oracle samples, once more, with a picture before each decision and after the last."""
    task: Any = population.tasks[agent]
    oracle: Any = ORACLES["autodiff"](task, population.policy, population.gamma, population.horizon)
    batch = oracle.sample(theta, episodes, stream)
    oracle.close()
    names = itertools.islice(named(stream, population.policy, population.horizon), episodes)
    actions = Actions(env.action_space).given(batch.actions)
    parts = (np.split(x, batch.lengths.cumsum()[:-1]) for x in (actions, batch.rewards))
    told = []
    for (seed, _), decided, rewards in zip(names, *parts, strict=True):
        env.reset(seed=seed)
        pictures = [_picture(env, task)]
        for action in decided:
            env.step(action)
            pictures.append(_picture(env, task))
        told.append(Episode(pictures, float(rewards.sum())))
    return told


def _rendering(task: Task) -> Any:
    """The agent's environment, rendering."""
    if not isinstance(task, Simulated):
        raise SettingsError("no film: the agent is no gymnasium environment")
    plain = made(task)
    modes = plain.metadata.get("render_modes") or ()
    closed(plain)
    if "rgb_array" not in modes:
        raise SettingsError(f"no film of {_name(task)}: it does not render rgb_array")
    try:
        return made(task, render_mode="rgb_array")
    except Exception as error:
        raise SettingsError(f"no film of {_name(task)}: it cannot be made to render: {cause(error)}") from None


def _picture(env: Any, task: Simulated) -> NDArray[np.uint8]:
    try:
        picture = np.array(env.render())
    except Exception as error:  # a package or a display that is not there, which foreign code says as it likes
        raise SettingsError(f"no film of {_name(task)}: it does not render here: {cause(error)}") from None
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise SettingsError(f"no film of {_name(task)}: it renders {picture.dtype} {picture.shape}, and no picture")
    return picture


def _panels(number: int, phases: Mapping[str, Episode]) -> list[NDArray[np.uint8]]:
    """The pictures of one episode, the phases side by side with a line of words above; who ends first stands still."""
    columns = []
    for name, (pictures, score) in phases.items():
        words = f"{name} adaptation, episode {number + 1}: {len(pictures) - 1} decisions, return {score:.1f}"
        columns.append([_labelled(picture, words) for picture in pictures])
    last = max(map(len, columns))
    return [np.hstack([column[min(at, len(column) - 1)] for column in columns]) for at in range(last)]


def _labelled(picture: NDArray[np.uint8], words: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    width = max(round(picture.shape[1] * HEIGHT / picture.shape[0]), 340)  # room for the words
    scale = min(width / picture.shape[1], HEIGHT / picture.shape[0])
    size = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
    canvas = Image.new("RGB", (width, HEIGHT + 16), "white")
    canvas.paste(Image.fromarray(picture).resize(size), ((width - size[0]) // 2, 16 + (HEIGHT - size[1]) // 2))
    ImageDraw.Draw(canvas).text((4, 2), words, fill="black")
    return np.array(canvas)


def _name(task: Any) -> str:
    return str(getattr(task, "of", task.env_id))
