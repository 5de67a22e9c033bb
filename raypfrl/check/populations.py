"""What has to be true of a population, whatever its agents do."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from raypfrl.check.found import Advice, Found, Wrong, report
from raypfrl.check.places import Place, small
from raypfrl.federation import Training
from raypfrl.methods import METHODS
from raypfrl.oracles import ORACLES, Guarded, Oracle, covering
from raypfrl.policies import Vector
from raypfrl.populations import POPULATIONS, Family, Population, Simulated
from raypfrl.settings import own_settings
from raypfrl.streams import SERVER, Purpose, Stream

BATCHES, M = 16, 32  # of trajectories, from which standard errors are computed
ERRORS = 6.0  # standard errors that two oracles may be apart: with 16 batches, chance goes so far once in 40,000
ROUNDING = 1e-5  # of float32, in which the fused oracle computes


def check_population(population: str | Family) -> Iterator[Found]:
    """Look at a population of the registry, or a family that is given, as it is with its defaults."""
    if isinstance(population, Family):
        name = "the family given"
        POPULATIONS[name] = population
        try:
            yield from check_population(name)
        finally:
            del POPULATIONS[name]
        return
    about, family, built = f"population {population}", POPULATIONS[population], list[Population]()
    yield from report(about, {"it is built with its defaults": lambda: _built(family, built)})
    if built:
        yield from report(about, dict(_looks(population, family, built[0])))


def _built(family: Family, built: list[Population]) -> str:
    one = family.build()
    if not isinstance(one, Population):
        raise Wrong(f"{family.build.__name__} gives {type(one).__name__} and not a Population")
    built.append(one)
    return f"{len(one.train)} agents and {len(one.held_out)} held out, d = {one.policy.dim}, horizon {one.horizon}"


def _looks(name: str, family: Family, one: Population) -> Iterator[tuple[str, Callable[[], str]]]:
    covered = covering(one.train[0], one.policy)
    yield "its options say what they mean", lambda: options(family)
    yield "its agents differ", lambda: tasks(one)
    for kind in {type(task): task for task in one.tasks if isinstance(task, Simulated)}.values():
        yield f"gymnasium's checker on {kind.env_id}", lambda kind=kind: environment(kind)  # type: ignore[misc]
    yield "theta^0 is finite, and one for all", lambda: initialisation(one, family)
    if isinstance(one.train[0], Simulated):
        yield "its policy acts, and log pi is finite", lambda: policy(one)
    for oracle in covered:
        yield f"two rounds on the {oracle} oracle", lambda oracle=oracle: rounds(name, oracle)  # type: ignore[misc]
    if "autodiff" in covered:
        for oracle in covered:
            if oracle not in ("autodiff", "continuing"):  # which has no episodes
                what = "the kernel" if oracle == "fused" else f"the {oracle} oracle"
                yield f"{what} is the environment", lambda oracle=oracle: agreement(one, oracle)  # type: ignore[misc]
    elif not covered:
        yield "some oracle covers it", uncovered


def options(family: Family) -> str:
    """Whether every option has a type and a meaning."""
    own = own_settings(family.build)
    if untyped := [name for name, letter in own.items() if letter.type is Any]:
        raise Advice(f"any value is taken for {', '.join(untyped)}; annotate it with a type and bounds")
    if dumb := [name for name, letter in own.items() if not letter.description]:
        raise Advice(f"not {', '.join(dumb)}; annotate it: Annotated[float, Field(description=...)]")
    return ", ".join(own)


def tasks(one: Population) -> str:
    """Whether no two agents have one task, or one environment."""
    for seen, number in _twice(one.tasks):
        raise Wrong(f"agents {seen} and {number} have the same task")
    simulated = [task for task in one.tasks if isinstance(task, Simulated)]
    for seen, number in _twice([(task.env_id, repr(task.env_kwargs)) for task in simulated]):
        raise Advice(
            f"agents {seen} and {number} have the same environment, {simulated[seen].env_id} with equal env_kwargs"
        )
    return f"{len(one.tasks)} tasks"


def _twice(things: Sequence[Any]) -> Iterator[tuple[int, int]]:
    for number, thing in enumerate(things):
        if (seen := things.index(thing)) < number:
            yield seen, number


def environment(task: Simulated) -> str:
    """Gymnasium's own checker; what it warns of is advice."""
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(task.env_id, **task.env_kwargs)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()
    if said := list(dict.fromkeys(re.sub(r"\x1b\[\d+m|WARN: ", "", str(warning.message)) for warning in told)):
        raise Advice("; ".join(" ".join(text.split()).rstrip(".") for text in said))
    return "nothing"


def initialisation(one: Population, family: Family) -> str:
    """Whether theta^0 is a finite vector of the policy's dim, the same whoever builds the population."""
    theta = one.initial()
    if theta.shape != (one.policy.dim,) or theta.dtype != np.float64:
        raise Wrong(f"it is {theta.dtype} {theta.shape}, and the policy says dim = {one.policy.dim}")
    if not np.isfinite(theta).all():
        raise Wrong("it is not finite")
    again = family.build()
    if again.initial().tobytes() != theta.tobytes():
        raise Wrong("it is another each time: draw it from the generator that init is given")
    if again.tasks != one.tasks:
        raise Wrong("theta^0 is, but not the tasks: they differ each time the population is built, or have no ==")
    one.initial(0, 0)
    return f"d = {len(theta)}"


def policy(one: Population) -> str:
    """Whether the policy's actions on its first observations are in the environment's space, and log pi finite."""
    import gymnasium
    import torch

    task: Any = one.train[0]
    env = gymnasium.make(task.env_id, **task.env_kwargs)
    rng = Stream(0, 0, 0, 0, Purpose.INNER).generator()
    theta = one.initial()
    for seed in range(32):
        observation, _ = env.reset(seed=seed)
        seen = np.array(observation)[None]
        action = one.policy.act(theta, seen, one.policy.noise(rng, (1,)))
        log_pi = one.policy.log_prob(*(torch.tensor(each) for each in (theta, seen, action)))
        if log_pi.shape != (1,) or not bool(torch.isfinite(log_pi).all()):
            raise Wrong(f"log pi of {action[0].tolist()} at {observation} is {log_pi.tolist()}")
        if not env.action_space.contains(np.asarray(action[0], env.action_space.dtype)):
            raise Advice(f"the action {action[0].tolist()} is outside of {env.action_space}")
    env.close()
    return f"log pi = {log_pi.item():.3g}"


def rounds(name: str, oracle: str) -> str:
    """Whether the exact method, or first order where the oracle has no Hessian, ends with finite numbers."""
    place = Place(name, oracle)
    *_, last = Training(small(place, "first_order" if place.lacking(METHODS["exact"]) else "exact"))
    if last["status"] != "finished":
        raise Wrong(last["message"])
    return f"return {last['before/return']:.3g} before adaptation and {last['after/return']:.3g} after"


def agreement(one: Population, oracle: str) -> str:
    """Whether an oracle that has the task in another form gives what sampled episodes of its environment give: the
    return, the success, the distance and the gradient, within standard errors."""
    rng = Stream(0, SERVER, 0, 0, Purpose.INIT).generator()
    theta = one.initial() + 0.3 * rng.standard_normal(one.policy.dim)
    directions = rng.standard_normal((3, one.policy.dim)) / math.sqrt(one.policy.dim)
    apart = {}
    for number, task in enumerate((one.train[0], one.train[-1])[: len(one.train)]):
        answers = [
            _answers(Guarded(ORACLES[each](task, one.policy, one.gamma, one.horizon)), theta, directions, place)
            for place, each in enumerate((oracle, "autodiff"))
        ]
        for what in answers[0]:
            (mean, error), (sampled, sampled_error) = answers[0][what], answers[1][what]
            if math.isnan(sampled):  # its info does not tell
                continue
            scale = math.hypot(error, sampled_error) + ROUNDING * (1 + abs(sampled))
            apart[what, number] = abs(mean - sampled) / scale
            if not apart[what, number] <= ERRORS:
                raise Wrong(
                    f"the {what} is {mean:.4g}, and in the environment {sampled:.4g} "
                    f"(standard error {math.hypot(error, sampled_error):.2g})"
                )
    return f"at most {max(apart.values()):.1f} standard errors apart"


def _answers(oracle: Oracle, theta: Vector, directions: Vector, place: int) -> Mapping[str, tuple[float, float]]:
    """What an oracle says, in mean and standard error over batches."""
    streams = [Stream(0, place, batch, 0, Purpose.EVALUATE) for batch in range(BATCHES)]
    rows = []
    for stream in streams:
        return_, success, distance = oracle.returns(theta, M, stream)
        g = oracle.policy_gradient(theta, M, stream)
        rows.append([return_, success, distance, *(directions @ g)])
    names = ("return", "success", "final distance", *(f"gradient along direction {i}" for i in range(len(directions))))
    columns = np.array(rows).T
    return {
        name: (float(column.mean()), float(column.std(ddof=1)) / math.sqrt(BATCHES))
        for name, column in zip(names, columns, strict=True)
    }


def uncovered() -> str:
    """A population that nothing can compute."""
    raise Wrong("none does: give its tasks env_id and env_kwargs, or mdp, or closed_form")
