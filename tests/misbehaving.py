"""Environments that do what gymnasium's contract allows, or does not. The well-behaved twin of each is ``Walk``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

H = 6  # decisions of an episode less one


class Walk(gymnasium.Env[Any, Any]):
    """A point in the plane that moves by half the action; it ends on leaving the unit disc, else it goes on."""

    def __init__(self) -> None:
        self.observation_space: Any = Box(-9.0, 9.0, (2,), np.float32)
        self.action_space: Any = Box(-0.5, 0.5, (2,), np.float32)
        self.x = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5, 2).astype(np.float32)
        return self.x.copy(), {}

    def step(self, action: Any) -> Any:
        self.x = self.x + np.float32(0.5) * action
        return self.x.copy(), -float(self.x @ self.x), bool(self.x @ self.x > 1), False, {}


class InPlace(Walk):
    """The action becomes the environment's scratch paper, at once and later."""

    kept: Any = None

    def step(self, action: Any) -> Any:
        if self.kept is not None:
            self.kept[:] = 77.0
        self.kept = action
        action *= np.float32(0.5)
        self.x = self.x + action
        answer = self.x.copy(), -float(self.x @ self.x), bool(self.x @ self.x > 1), False, {}
        action[:] = np.nan
        return answer


class ReusedBuffer(Walk):
    """One array for all observations, wiped when the next is due, and one for all rewards."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer, self.reward = np.zeros(2, np.float32), np.zeros(())

    def reset(self, **options: Any) -> Any:
        self.buffer[:] = super().reset(**options)[0]
        return self.buffer, {}

    def step(self, action: Any) -> Any:
        self.buffer[:], self.reward[...] = np.nan, np.nan
        observation, reward, *rest = super().step(action)
        self.buffer[:], self.reward[...] = observation, reward
        return self.buffer, self.reward, *rest


class ReadOnly(Walk):
    """Views that cannot be written to."""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        observation.flags.writeable = False
        return observation[:], *rest


class Types(Walk):
    """float64 observations as a list, a reward array of one number, ends as NumPy's, no info."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0].astype(np.float64), {}

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation.tolist(), np.array([reward]), np.array(terminated), np.bool_(truncated), None


class LateNumbers(Walk):
    """After the end: wild numbers of wild types in what is left to read."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return ("over" if terminated else observation), reward, terminated, truncated, info


class ExtraInfo(Walk):
    """info full of things, with names that mean something elsewhere, none of them a number."""

    def step(self, action: Any) -> Any:
        told = {"success": "yes", "distance": self.x, "final_info": {"success": True}, "TimeLimit.truncated": True}
        return *super().step(action)[:4], told


class Counting(Walk):
    """Keeps a count of its episodes, which changes nothing."""

    def reset(self, **options: Any) -> Any:
        self.episodes = getattr(self, "episodes", 0) + 1
        return super().reset(**options)


class Outside(Walk):
    """Says that it keeps to a smaller box than it does: bounds are for whoever wants to normalise."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-0.01, 0.01, (2,), np.float32)


class Unclosable(Walk):
    """Cannot be closed."""

    def close(self) -> None:
        raise OSError("it is stuck")


def wrapped() -> gymnasium.Env[Any, Any]:
    """In wrappers of its own, a time limit among them that cuts nothing."""
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(Walk(), H + 1))


def autoreset() -> gymnasium.Env[Any, Any]:
    """In a wrapper that resets by itself after an end."""
    return gymnasium.wrappers.Autoreset(Walk())


# --- what cannot be taken -----------------------------------------------------------------------------------------


def breaking(answer: Callable[[Any], Any], at: str = "step") -> type[Walk]:
    """A walk that breaks at its third decision, or at its first reset."""

    class Breaking(Walk):
        decisions = 0

        def reset(self, **options: Any) -> Any:
            self.decisions = 0
            given = super().reset(**options)
            return answer(given) if at == "reset" else given

        def step(self, action: Any) -> Any:
            self.decisions += 1
            given = super().step(0 * action)  # it stays where it is, and does not end before
            return answer(given) if at == "step" and self.decisions == 3 else given

    return Breaking


class Unspeakable(Exception):
    """Cannot be pickled, and cannot be written."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = lambda: None

    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Callable[[Any], Any]:
    def raise_it(given: Any) -> Any:
        raise error

    return raise_it


SOUND: Mapping[str, Callable[..., gymnasium.Env[Any, Any]]] = {
    "in place": InPlace, "reused buffers": ReusedBuffer, "read-only": ReadOnly, "other types": Types,
    "late numbers": LateNumbers, "extra info": ExtraInfo, "own state": Counting, "outside its space": Outside,
    "unclosable": Unclosable, "own wrappers": wrapped, "own autoreset": autoreset,
}  # fmt: skip

# what it does; what is said of it
BROKEN: Mapping[str, tuple[Callable[..., gymnasium.Env[Any, Any]], str]] = {
    "raises": (breaking(raising(OSError("the sensor is off"))), "OSError: the sensor is off"),
    "surrogates": (breaking(raising(ValueError("caf\udce9"))), r"ValueError: caf\udce9"),
    "newlines": (breaking(raising(ValueError("a\nb\0c\x1b[31m"))), r"ValueError: a\nb\x00c\x1b[31m"),
    "a megabyte": (breaking(raising(ValueError("x" * 2**20))), "ValueError: xxx"),
    "unspeakable": (breaking(raising(Unspeakable())), "Unspeakable: "),
    "no message": (breaking(raising(AssertionError())), "AssertionError"),
    "stops the iteration": (breaking(raising(StopIteration())), "StopIteration"),
    "leaves": (breaking(raising(SystemExit(3))), "SystemExit: 3"),
    "leaves the generator": (breaking(raising(GeneratorExit())), "GeneratorExit"),
    "raises in reset": (breaking(raising(KeyError("map")), "reset"), "KeyError: 'map'"),
    "four values": (breaking(lambda given: given[:4]), "step did not give (observation, reward, terminated, "),
    "nothing": (breaking(lambda given: None), "step did not give (observation, reward, terminated, "),
    "no info at reset": (breaking(lambda given: given[0], "reset"), "reset did not give (observation, info)"),
    "another shape": (breaking(lambda given: (given[0][:1], *given[1:])), "shape (1,), its space (2,)"),
    "one axis more": (breaking(lambda given: (given[0][None], *given[1:])), "shape (1, 2), its space (2,)"),
    "text": (breaking(lambda given: ("here", *given[1:])), "the observation is of type <U4, its space of float32"),
    "nothing seen": (breaking(lambda given: (None, *given[1:])), "the observation is of type object"),
    "no reward": (breaking(lambda given: (given[0], None, *given[2:])), "TypeError"),
    "reward as text": (breaking(lambda given: (given[0], "1", *given[2:])), "the reward is the text '1'"),
    "an end as text": (breaking(lambda given: (*given[:2], "False", *given[3:])), "terminated is 'False', and should"),
    "an end as a number": (breaking(lambda given: (*given[:3], 0, given[4])), "truncated is 0, and should be True or"),
    "no word of an end": (breaking(lambda given: (*given[:3], None, given[4])), "truncated is None, and should be"),
    "ends": (breaking(lambda given: (*given[:2], np.ones(2, bool), *given[3:])), "terminated is array([ True,  True])"),
    "two rewards": (breaking(lambda given: (given[0], np.ones(2), *given[2:])), "ValueError"),
}  # fmt: skip


class States(gymnasium.Env[Any, Any]):
    """Three states and two actions by any numbers; ``seen`` is what it shows for a state."""

    def __init__(self, start: int = 0, first: int = 0, seen: Any = int) -> None:
        self.observation_space: Any = Discrete(3, start=first)
        self.action_space: Any = Discrete(2, start=start)
        self.state, self.first, self.start, self.seen = 0, first, start, seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(3))
        return self.seen(self.state + self.first), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"an action {action!r}"
        self.state = (self.state + int(action) - self.start + 1) % 3
        return self.seen(self.state + self.first), float(self.state), False, False, {}


gymnasium.register(id="tiny/Walk-v0", entry_point=Walk)
gymnasium.register(id="tiny/States-v0", entry_point=States)
for _kinds in (SOUND, {name: env for name, (env, _) in BROKEN.items()}):
    for _name, _env in _kinds.items():
        gymnasium.register(id=f"tiny/{_name.title().replace(' ', '')}-v0", entry_point=_env)


def env_id(name: str) -> str:
    """The id of a row."""
    return f"tiny/{name.title().replace(' ', '')}-v0"
