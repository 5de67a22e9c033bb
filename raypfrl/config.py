"""RunConfig: all settings of one run, each defined once. The CLI, the grids, the tracker and the messages follow."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from raypfrl.evaluation import MAdapt
from raypfrl.methods import METHODS
from raypfrl.methods.curvature import ESTIMATORS
from raypfrl.oracles import ORACLES, covering, is_exact
from raypfrl.populations import POPULATIONS, Population


class SettingsError(ValueError):
    """Something that was asked for cannot be run. The message is one line and says the remedy."""


def did_you_mean(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known one."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"unknown {kind} {name!r}: " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")


def _whole(value: Any) -> Any:
    """YAML reads 1e3 as text, and 5.0 as a float: both are whole numbers where they are whole."""
    if isinstance(value, bool):
        raise ValueError("should be a whole number, not true or false")
    try:
        number = float(value) if isinstance(value, str | float) else value
    except ValueError:
        return value
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _sequence(value: Any) -> Any:
    """A single entry stands for a sequence of one."""
    return (value,) if isinstance(value, int | str) and not isinstance(value, bool) else value


def _real(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Real = Annotated[float, BeforeValidator(_real)]
Batch = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=10_000_000)]


EXECUTION = {"actors", "round_timeout", "diagnostics"}  # settings that say how to compute and not what


class RunConfig(BaseModel):
    """The settings of one run, frozen and checked. What is left out takes the population's own value (the paper's).

    Raises SettingsError for an unknown name, or a value or combination that cannot be run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    population: str = Field(description="the family of agents")
    method: str = Field(description="the direction of a local step, and what the server does with the results")
    oracle: str = Field("auto", description="where an agent's numbers come from; auto: the fastest that covers it")
    seed: Whole = Field(0, ge=0, lt=2**32, description="names every random number of the run")
    n: Whole = Field(ge=1, le=100_000, description="training agents")
    gamma: Real = Field(ge=0, le=1, description="discount, absolute: gamma^0 at h = 0")
    horizon: Whole = Field(ge=0, le=10_000, description="H: an episode has H + 1 decisions")
    hidden: Annotated[tuple[Annotated[Whole, Field(ge=1, le=10_000)], ...], BeforeValidator(_sequence)] = Field(
        (), description="hidden layer widths of a neural policy"
    )
    rounds: Whole = Field(ge=1, lt=2**32, description="K: communication rounds")
    tau: Whole = Field(ge=1, lt=2**24, description="local steps a round")
    alpha: Real = Field(ge=0, allow_inf_nan=False, description="adaptation step size")
    beta: Real = Field(gt=0, allow_inf_nan=False, description="step size of a local step")
    m_in: Batch = Field(description="trajectories of the inner batch D_in")
    m_h: Batch = Field(description="trajectories of the Hessian batch D_h")
    m_out: Batch = Field(description="trajectories of the outer batch D_out")
    curvature: str = Field("paper", description="the estimator of the curvature term H_hat v")
    curvature_clip: Annotated[Real, Field(ge=0)] | None = Field(
        None, description="c: scale the curvature term back to c times the outer gradient's norm; left out: off"
    )
    participants: Literal["train", "held_out"] = Field("train", description="the agents that learn")
    cohort: Whole = Field(0, ge=0, description="r: agents drawn anew for each round; left out: all of them")
    min_agents: Whole = Field(
        0, ge=0, description="answers that are enough for a round once round_timeout is over; 0: every agent's"
    )
    round_timeout: Real = Field(
        600.0, gt=0, le=1e6, allow_inf_nan=False,
        description="seconds after which an actor that has not answered is replaced; changes results with min_agents",
    )  # fmt: skip
    evaluate: Annotated[tuple[Whole, ...] | Whole, BeforeValidator(_whole)] = Field(
        10, description="evaluate every so many rounds, or after the listed ones; first and last always"
    )
    m_adapt: Annotated[tuple[Annotated[MAdapt, BeforeValidator(_whole)], ...], BeforeValidator(_sequence)] = Field(
        min_length=1, description="evaluation: trajectories of the adaptation step; 0: none; exact: no sampling"
    )
    m_eval: Batch = Field(512, ge=1, description="evaluation: rollouts an agent, where it is not exact")
    actors: Whole | Literal["auto"] = Field(
        "auto", description="Ray actors that host a run's agents; 0: in process. Changes no result"
    )

    diagnostics: bool = Field(False, description="measure what the paper's bounds are about; changes no result")

    def __init__(self, **settings: Any) -> None:
        for name, known in (("population", POPULATIONS), ("method", METHODS)):
            if name not in settings:
                raise SettingsError(f"no {name}: give one of {', '.join(known)}")
            if not isinstance(settings[name], str) or settings[name] not in known:
                raise SettingsError(did_you_mean(name, settings.get(name), known))
        if unknown := [name for name in settings if name not in type(self).model_fields]:
            raise SettingsError(did_you_mean("setting", unknown[0], type(self).model_fields))
        try:
            super().__init__(**{**POPULATIONS[settings["population"]].paper, **settings})
        except ValidationError as error:
            raise SettingsError(_one_line(error)) from None
        self._check()

    def build_population(self) -> Population:
        """The population that these settings name."""
        return _built(self.population, self.n, self.gamma, self.horizon, self.hidden)

    def agents(self) -> tuple[int, ...]:
        """The numbers of the agents that learn."""
        population = self.build_population()
        first = 0 if self.participants == "train" else self.n
        return tuple(range(first, self.n if self.participants == "train" else len(population.tasks)))

    def identity(self) -> dict[str, Any]:
        """Every setting that the results depend on, by its letter; ready for JSON."""
        return self.model_dump(mode="json", exclude=EXECUTION - {"round_timeout"} if self.min_agents else EXECUTION)

    def execution(self) -> dict[str, Any]:
        """The settings that say how to compute; ready for JSON."""
        return self.model_dump(mode="json", include=EXECUTION)

    def key(self) -> str:
        """Twelve hex digits, the hash of ``identity``: the name of the trial."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:12]

    def evaluated_after(self, k: int) -> bool:
        """Whether an evaluation follows k rounds: at the start, at the end, and where ``evaluate`` says."""
        every = self.evaluate
        return k in (0, self.rounds) or (k in every if isinstance(every, tuple) else k % every == 0)

    def method_settings(self) -> dict[str, Any]:
        """The settings that the method's direction takes as keyword arguments."""
        return {name: getattr(self, name) for name in METHODS[self.method].settings}

    def _check(self) -> None:
        """Check the settings against each other, and settle what ``auto`` and a left-out cohort mean."""
        population = self.build_population()
        learners = len(self.agents())
        if learners == 0:
            raise SettingsError(f"participants = held_out: {self.population} with n = {self.n} has none; raise n")
        if self.cohort > learners:
            raise SettingsError(f"cohort = {self.cohort} is above the {learners} agents that learn; lower it")
        if self.min_agents > (self.cohort or learners):
            raise SettingsError(
                f"min_agents = {self.min_agents} is above the {self.cohort or learners} agents of a round; lower it"
            )
        if self.min_agents and self.actors == 0:
            raise SettingsError("min_agents needs actors: in process (actors = 0) no agent is ever late")
        covered = covering(population.train[0], population.policy)
        oracle = covered[0] if self.oracle == "auto" else self.oracle
        if oracle not in ORACLES:
            raise SettingsError(did_you_mean("oracle", oracle, ("auto", *ORACLES)))
        if oracle not in covered:
            raise SettingsError(f"oracle = {oracle} does not cover {self.population}; choose from {', '.join(covered)}")
        if self.curvature not in ESTIMATORS:
            raise SettingsError(did_you_mean("curvature", self.curvature, ESTIMATORS))
        self._check_batches()
        if "exact" in self.m_adapt and not is_exact(population.train[0]):
            raise SettingsError(f"m_adapt = exact: {self.population} has no exact oracle; give numbers, e.g. 0, 256")
        if len(set(self.m_adapt)) < len(self.m_adapt):
            raise SettingsError(f"m_adapt = {list(self.m_adapt)}: give each number once")
        if any(m != "exact" and not 0 <= m < 2**24 for m in self.m_adapt):
            raise SettingsError(f"m_adapt = {list(self.m_adapt)}: give numbers from 0 to {2**24 - 1}, or exact")
        if min(self.evaluate if isinstance(self.evaluate, tuple) else (self.evaluate,), default=1) < 1:
            raise SettingsError(f"evaluate = {self.evaluate}: give a number of rounds, or rounds, from 1 up")
        if self.actors != "auto" and self.actors < 0:
            raise SettingsError(f"actors = {self.actors}: give auto, a number, or 0 for in process")
        # Frozen for everybody else: these are settled here, once, so that equal runs have equal keys.
        clip = None if self.curvature_clip == float("inf") else self.curvature_clip
        cohort = self.cohort or learners
        min_agents = 0 if self.min_agents == cohort else self.min_agents
        self.__dict__.update(oracle=oracle, cohort=cohort, min_agents=min_agents, curvature_clip=clip)

    def _check_batches(self) -> None:
        batches = {name: size for name, size in self.method_settings().items() if name.startswith("m_")}
        if "alpha" in METHODS[self.method].settings:
            for name, size in batches.items():
                if size == 0:
                    raise SettingsError(f"{name} = 0: the method {self.method} needs at least one trajectory in it")
        elif sum(batches.values()) == 0:
            raise SettingsError(f"{' + '.join(batches)} = 0: the method {self.method} needs at least one trajectory")


@lru_cache(maxsize=64)
def _built(name: str, n: int, gamma: float, horizon: int, hidden: tuple[int, ...]) -> Population:
    build, paper = POPULATIONS[name]
    options = {"n": n, "gamma": gamma, "horizon": horizon, "hidden": hidden}
    if hidden and "hidden" not in paper:
        raise SettingsError(f"hidden = {list(hidden)}: the policy of {name} has no hidden layers; leave it out")
    try:
        return build(**{option: value for option, value in options.items() if option in paper})
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _one_line(error: ValidationError) -> str:
    """Every setting at fault with what is wanted of it, in one line."""
    faults: Mapping[str, str] = {
        str(fault["loc"][0]): f"{fault['loc'][0]} = {fault['input']!r}: {fault['msg'][0].lower()}{fault['msg'][1:]}"
        for fault in error.errors()
    }
    return "; ".join(
        f"{fault} ({RunConfig.model_fields[name].description})" if name in RunConfig.model_fields else fault
        for name, fault in faults.items()
    )
