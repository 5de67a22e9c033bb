"""RunConfig: all settings of one run. The run's own are fields here; a method's and a population's stand beside them,
as keyword-only arguments of their functions. The CLI, the grids, the tracker and the messages follow."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, create_model

from raypfrl.methods import METHODS, WRAPPERS, MAdapt, Method
from raypfrl.methods.curvature import Curvature, CurvatureClip
from raypfrl.oracles import ORACLES, AgentError, answers, covering
from raypfrl.policies import PARTS, Policy, Vector
from raypfrl.populations import POPULATIONS, Population
from raypfrl.settings import (
    LETTERS,
    Batch,
    Letter,
    Real,
    Whole,
    bound,
    did_you_mean,
    lone,
    own_settings,
    sequence,
    whole,
)
from raypfrl.settings import SettingsError as SettingsError  # where one looks for it
from raypfrl.text import short
from raypfrl.theta0 import SHARED, begin
from raypfrl.uses import Use, find_installed, install, label, needed, remedy

EXECUTION = {"actors", "round_timeout", "diagnostics"}  # settings that say how to compute and not what

# What every trial of the first version named, in its order, whether its method used it or not. Trials are known by
# their keys, and those of methods and populations that were born then hold all of it. Never add a name.
FIRST = (
    "population", "method", "oracle", "seed", "n", "gamma", "horizon", "hidden", "rounds", "tau", "alpha", "beta",
    "m_in", "m_h", "m_out", "curvature", "curvature_clip", "participants", "cohort", "min_agents", "evaluate",
    "m_adapt", "m_eval",
)  # fmt: skip
_UNUSED: Mapping[str, Letter] = {  # those of FIRST that some of its methods and populations do not use
    **{name: Letter(kind, Parameter.empty) for name, kind in LETTERS.items() if name in FIRST},
    "hidden": Letter(LETTERS["hidden"], ()),
    "curvature": Letter(Curvature, "paper"),
    "curvature_clip": Letter(CurvatureClip, None),
}


_NAMED: Mapping[str, Mapping[str, Any]] = {"population": POPULATIONS, "method": METHODS}


TaskTime = Annotated[Real, Field(gt=0, le=1e6)]


class RunSettings(BaseModel):
    """The run's own settings; what a method and a population add to them is in ``known``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    population: str = Field(description="the family of agents")
    method: str = Field(description="what an agent does in a round, and what the server does with the results")
    oracle: str = Field("auto", description="where an agent's numbers come from; auto: the fastest that covers it")
    seed: Whole = Field(0, ge=0, lt=2**32, description="names every random number of the run")
    theta0: Annotated[Whole | str, BeforeValidator(whole)] = Field(
        SHARED,
        description="theta^0: shared, paper (its code's own), the number of another draw, or a checkpoint's file",
    )
    rounds: Whole = Field(ge=1, lt=2**32, description="K: communication rounds")
    participants: Literal["train", "held_out"] = Field("train", description="the agents that learn")
    cohort: Whole | Literal["all"] = Field("all", description="r: agents drawn anew for each round")
    clock: Literal["rounds", "events"] = Field(
        "rounds",
        description="when the server takes its step: after all have answered, or after each answer, in simulated time",
    )
    task_times: Annotated[tuple[TaskTime, ...], BeforeValidator(lone)] = Field(
        (1.0,),
        min_length=1,
        description="with clock = events, how long a task takes: one time for all, or one an agent",
    )
    min_agents: Whole = Field(
        0, ge=0, description="answers that are enough for a round once round_timeout is over; 0: every agent's"
    )
    round_timeout: Real = Field(
        600.0, gt=0, le=1e6,
        description="seconds after which an actor that has not answered is replaced; changes results with min_agents",
    )  # fmt: skip
    evaluate: Annotated[tuple[Whole, ...] | Whole, BeforeValidator(whole)] = Field(
        10, description="evaluate every so many rounds, or after the listed ones; first and last always"
    )
    m_adapt: Annotated[tuple[Annotated[MAdapt, BeforeValidator(whole)], ...], BeforeValidator(sequence)] = Field(
        (0, 256),
        min_length=1,
        description="evaluation: trajectories of an adaptation step; 0: none; exact: no sampling",
    )
    m_eval: Batch = Field(512, ge=1, description="evaluation: rollouts an agent, where it is not exact")
    evaluation_seed: Annotated[Whole | Literal["own"], BeforeValidator(whole)] = Field(
        "own", description="evaluation: names its random numbers; own: as seed does. A number: the same for every seed"
    )
    actors: Whole | Literal["auto"] = Field(
        "auto", description="Ray actors that host a run's agents; 0: in process. Changes no result"
    )
    uses: str = Field("", description="your files and packages that the run needs, by hash or version; found by itself")
    diagnostics: bool = Field(False, description="measure what the paper's bounds are about; changes no result")


class RunConfig(RunSettings):
    """The settings of one run, frozen and checked. What is left out takes the population's own value (the paper's).
    The letters of the method and of the population are attributes like the run's own.

    Raises SettingsError for an unknown name, or a value or combination that cannot be run.
    """

    model_config = ConfigDict(extra="allow")

    cohort: Whole = Field(description="r, as it was settled")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A letter of the method or of the population."""

    _files: tuple[Use, ...] = PrivateAttr(())  # the user's files, which travel with the settings
    _theta0: Vector | None = PrivateAttr(None)  # travels too: the file that it was read from does not
    _key: str = PrivateAttr("")
    _trouble: str = PrivateAttr("")  # why they cannot be loaded where the settings have arrived

    def __init__(self, **settings: Any) -> None:
        _find(settings)
        for name, registry in _NAMED.items():
            if name not in settings:
                raise SettingsError(f"no {name}: give one of {', '.join(registry)}")
            if not isinstance(settings[name], str) or settings[name] not in registry:
                uses = settings.get("uses")
                raise SettingsError(remedy(str(uses)) if uses else did_you_mean(name, settings.get(name), registry))
        settled, theta0 = _settled(_validated(settings))
        super().__init__(**settled)
        self._theta0 = theta0
        self._files = needed(self.population, self.method)
        self._key = hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:12]

    def __getstate__(self) -> dict[Any, Any]:
        """What travels, the files first: a value may be of a class that stands in one of them."""
        state = super().__getstate__()
        return {"__pydantic_private__": state["__pydantic_private__"], **state}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Arrive in another process: with the files that the settings need. What cannot be loaded there is told by who
        asks for it, not by a process that ends as it begins."""
        super().__setstate__(state)
        try:
            install(self._files)
            _find(vars(self))
        except SettingsError as error:
            self._trouble = str(error)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other settings, checked like every other."""
        return type(self)(**{**self.model_dump(), **(update or {})})

    @property
    def letters(self) -> dict[str, Any]:
        """The settings of the method and of the population by name."""
        return dict(self.model_extra or {})

    def build_population(self) -> Population:
        """The population that these settings name. Raises AgentError where it cannot be loaded in this process."""
        if self._trouble:
            raise AgentError(self._trouble)
        population = _population(self.population, self.letters).population
        return population if self._theta0 is None else replace(population, theta0=self._theta0)

    def build_method(self) -> Method:
        """The method, with its settings given, in the wrappers that these name. Raises AgentError where it cannot be
        loaded in this process."""
        if self._trouble:
            raise AgentError(self._trouble)
        method = METHODS[self.method].with_settings(self.letters)
        for wrapper in WRAPPERS:
            method = bound(wrapper, self.letters)(method)
        return method

    def agents(self) -> tuple[int, ...]:
        """The numbers of the agents that learn."""
        return self.splits()[self.participants]

    def splits(self) -> dict[str, tuple[int, ...]]:
        """The numbers of all agents: train and held_out."""
        return _splits(self.build_population())

    def identity(self) -> dict[str, Any]:
        """Every setting that the results depend on, by its letter; ready for JSON. What came after the first version
        is named where it is not at its default, so that a new setting renames no trial."""
        letters = known(self.population, self.method)
        left_out = EXECUTION - {"round_timeout"} if self.min_agents else EXECUTION
        dumped = self.model_dump(mode="json", exclude=left_out)
        defaults = {name: letter.default for name, letter in letters.items()}
        later = [name for name in dumped if name not in FIRST and getattr(self, name) != defaults[name]]
        return {name: dumped[name] for name in (*FIRST, *later) if name in dumped}

    def described(self, swept: Iterable[str]) -> dict[str, Any]:
        """``identity`` and the settings that a sweep varies, at their defaults too: they tell its rows apart."""
        varied = {name for name in swept if name not in EXECUTION and hasattr(self, name)}
        return {**self.identity(), **self.model_dump(mode="json", include=varied)}

    def execution(self) -> dict[str, Any]:
        """The settings that say how to compute; ready for JSON."""
        return self.model_dump(mode="json", include=EXECUTION)

    def key(self) -> str:
        """Twelve hex digits, the hash of ``identity``: the name of the trial."""
        return self._key

    def evaluated_after(self, k: int) -> bool:
        """Whether an evaluation follows k rounds: at the start, at the end, and where ``evaluate`` says."""
        every = self.evaluate
        return k in (0, self.rounds) or (k in every if isinstance(every, tuple) else k % every == 0)

    def times_evaluated(self) -> int:
        """How many evaluations a run has: for how many k ``evaluated_after`` holds."""
        every = self.evaluate
        if isinstance(every, tuple):
            return len({0, self.rounds, *(k for k in every if k < self.rounds)})
        return 1 + math.ceil(self.rounds / every)

    def method_settings(self) -> dict[str, Any]:
        """The settings that the method's functions take as keyword arguments."""
        return {name: self.letters[name] for name in METHODS[self.method].settings}

    def batches(self) -> dict[str, int]:
        """The sizes of the batches that the method draws in a local step."""
        return {name: self.letters[name] for name, letter in METHODS[self.method].settings.items() if letter.batch}


def _find(settings: Mapping[str, Any]) -> None:
    """Look among the installed packages too, where a name is not known."""
    if not all(isinstance(name := settings.get(kind), str) and name in known for kind, known in _NAMED.items()):
        find_installed()


def known(population: str, method: str) -> Mapping[str, Letter]:
    """Every setting of a run of this method on this population."""
    family = POPULATIONS[population]
    return _known(family.build, family.first, METHODS[method])


def every_setting() -> dict[str, Letter]:
    """The settings of all methods on all populations."""
    builders = (own_settings(family.build) for family in POPULATIONS.values())
    settings = dict[str, Letter]()
    for letters in (_run_settings(), *builders, *(m.settings for m in METHODS.values()), _of_wrappers()):
        settings |= {name: letter for name, letter in letters.items() if name not in settings}
    return settings


@cache
def _known(build: Callable[..., Population], first: bool, method: Method) -> Mapping[str, Letter]:
    run, options, others = _run_settings(), own_settings(build), method.settings
    if taken := [name for name in (*options, *others) if name in run]:
        raise SettingsError(f"{taken[0]}: the run has a setting of that name; call the one of your own otherwise")
    if taken := [name for name in options if name in others and options[name].type != others[name].type]:
        raise SettingsError(f"{taken[0]}: the population and the method mean different things by it; rename one")
    first_letters = _UNUSED if first and method.first else {}
    return {**run, **first_letters, **options, **others, **_of_wrappers()}


def _of_wrappers() -> dict[str, Letter]:
    return {name: letter for wrapper in WRAPPERS for name, letter in own_settings(wrapper).items()}


def _run_settings() -> dict[str, Letter]:
    return {
        name: Letter(Annotated[field.annotation, field], Parameter.empty if field.is_required() else field.default)
        for name, field in RunSettings.model_fields.items()
    }


def _validated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, each checked by itself, those left out filled in."""
    population, method = settings["population"], settings["method"]
    letters, suggested = known(population, method), POPULATIONS[population].suggested
    if unknown := [name for name in settings if name not in letters]:
        raise SettingsError(_unknown(unknown[0], population, method, letters))
    given = {**{name: value for name, value in suggested.items() if name in letters}, **settings}
    if missing := [name for name, x in letters.items() if name not in given and x.default is Parameter.empty]:
        raise SettingsError(
            f"no {', '.join(missing)}: {population} suggests none; give it by --set {missing[0]}=... or in its Family"
        )
    try:
        checked = _model(POPULATIONS[population].build, POPULATIONS[population].first, METHODS[method])(**given)
    except ValidationError as error:
        raise SettingsError(_one_line(error, letters)) from None
    return {name: getattr(checked, name) for name in letters}


@cache
def _model(build: Callable[..., Population], first: bool, method: Method) -> type[RunSettings]:
    """RunSettings with the letters of a method and a population as fields."""
    letters = {name: x for name, x in _known(build, first, method).items() if name not in RunSettings.model_fields}
    fields = {name: (x.type, ... if x.default is Parameter.empty else x.default) for name, x in letters.items()}
    return create_model("Settings", __base__=RunSettings, **cast(dict[str, Any], fields))


def _unknown(name: str, population: str, method: str, letters: Mapping[str, Letter]) -> str:
    """What to say of a setting that is another's, or nobody's."""
    owners = [other for other, one in METHODS.items() if name in one.settings]
    if owners:
        return f"{name} is a setting of {', '.join(owners)}, and the method is {method}; leave it out"
    owners = [other for other, family in POPULATIONS.items() if name in own_settings(family.build)]
    if owners:
        return f"{name} is a setting of {', '.join(owners)}, and the population is {population}; leave it out"
    return did_you_mean("setting", name, letters)


def _settled(settings: dict[str, Any]) -> tuple[dict[str, Any], Vector | None]:
    """The settings checked against each other, and theta^0 where it is not the shared one; what ``auto`` and ``all``
    mean is settled here, once, so that equal runs have equal keys."""
    here = label(settings["population"], settings["method"])
    if settings["uses"] not in ("", here):
        raise SettingsError(f"begun with {settings['uses']}, and this is {here or 'raypfrl alone'}; give that file")
    population, answered = _population(settings["population"], settings)
    name, method = settings["population"], METHODS[settings["method"]]
    learners = len(_splits(population)[settings["participants"]])
    cohort = learners if settings["cohort"] in ("all", 0) else settings["cohort"]
    min_agents, evaluate, m_adapt = settings["min_agents"], settings["evaluate"], settings["m_adapt"]
    if learners == 0:
        raise SettingsError(f"participants = held_out: {name} with n = {len(population.train)} has none; raise n")
    if not 0 <= cohort <= learners:
        raise SettingsError(f"cohort = {cohort}: {learners} agents learn; give all, or 1 to {learners}")
    if min_agents > cohort:
        raise SettingsError(f"min_agents = {min_agents} is above the {cohort} agents of a round; lower it")
    if min_agents and settings["actors"] == 0:
        raise SettingsError("min_agents needs actors: in process (actors = 0) no agent is ever late")
    if method.everyone and (cohort < learners or min_agents):
        raise SettingsError(f"{settings['method']} needs every agent in every round; leave out cohort and min_agents")
    if said := _clock(settings, method, learners, cohort):
        raise SettingsError(said)
    oracle = _oracle(settings, population.policy, answered, method.asks(settings))
    _check_batches(settings["method"], {b: settings[b] for b, letter in method.settings.items() if letter.batch})
    if "exact" in m_adapt and "exact" not in answered:
        raise SettingsError(f"m_adapt = exact: {name} has no exact oracle; give numbers, e.g. 0, 256")
    if len(set(m_adapt)) < len(m_adapt):
        raise SettingsError(f"m_adapt = {short(list(m_adapt))}: give each number once")
    if any(m != "exact" and not 0 <= m < 2**24 for m in m_adapt):
        raise SettingsError(f"m_adapt = {short(list(m_adapt))}: give numbers from 0 to {2**24 - 1}, or exact")
    if min(evaluate if isinstance(evaluate, tuple) else (evaluate,), default=1) < 1:
        raise SettingsError(f"evaluate = {short(evaluate)}: give a number of rounds, or rounds, from 1 up")
    if settings["actors"] != "auto" and settings["actors"] < 0:
        raise SettingsError(f"actors = {settings['actors']}: give auto, a number, or 0 for in process")
    if (evaluation_seed := settings["evaluation_seed"]) != "own" and not 0 <= evaluation_seed < 2**32:
        raise SettingsError(f"evaluation_seed = {evaluation_seed}: give own, or a number from 0 to {2**32 - 1}")
    theta0, vector = begin(settings["theta0"], population.policy)
    settled = {
        "uses": here,
        "oracle": oracle,
        "cohort": cohort,
        "min_agents": 0 if min_agents == cohort else min_agents,
        "theta0": theta0,
    }
    return {**settings, **settled}, vector


def _clock(settings: Mapping[str, Any], method: Method, learners: int, cohort: int) -> str:
    """What is wrong with the clock; empty where nothing is."""
    times = len(settings["task_times"])
    if settings["clock"] == "rounds":
        return "" if settings["task_times"] == (1.0,) else "task_times is for clock = events; leave it out"
    if times not in (1, learners):
        return f"task_times has {times} times for {learners} agents that learn; give one for all, or one for each"
    if method.everyone or len(method.phases) > 1:
        what = "needs every agent in every round" if method.everyone else "goes to every agent more than once a round"
        return f"clock = events: {settings['method']} {what}; take a method of one phase"
    if cohort < learners or settings["min_agents"]:
        return "clock = events waits for nobody: leave out cohort and min_agents"
    return ""


def _oracle(
    settings: Mapping[str, Any], policy: Policy, answered: Mapping[str, frozenset[str]], asked: frozenset[str]
) -> str:
    """The oracle: for ``auto`` the first that covers the population and answers all that the method asks."""
    name, method, covered = settings["population"], settings["method"], tuple(answered)
    for part, wanted in (("blocks", "a network"), ("table", "a table")):
        if part in asked and not isinstance(policy, PARTS[part]):
            raise SettingsError(f"{method} asks for {part}, which the policy of {name} has not; take one with {wanted}")
    asked = asked - PARTS.keys()
    able = [oracle for oracle in covered if asked <= answered[oracle]]
    oracle: str = (able or covered)[0] if settings["oracle"] == "auto" else settings["oracle"]
    if oracle not in ORACLES:
        raise SettingsError(did_you_mean("oracle", oracle, ("auto", *ORACLES)))
    if oracle not in covered:
        raise SettingsError(f"oracle = {oracle} does not cover {name}; choose from {', '.join(covered)}")
    if oracle not in able:
        question = min(asked - answered[oracle])
        remedy = f"choose oracle = {' or '.join(able)}" if able else "choose another method or population"
        raise SettingsError(f"{method} asks for {question}, which {oracle} does not answer on {name}; {remedy}")
    return oracle


def _check_batches(method: str, batches: Mapping[str, int]) -> None:
    letters = METHODS[method].settings
    for name, size in batches.items():
        mark = letters[name].batch
        if size == 0 and mark is not None and mark.needed:
            raise SettingsError(f"{name} = 0: the method {method} needs at least one trajectory in it")
    if batches and sum(batches.values()) == 0:
        raise SettingsError(f"{' + '.join(batches)} = 0: the method {method} needs at least one trajectory")


def _splits(population: Population) -> dict[str, tuple[int, ...]]:
    n = len(population.train)
    return {"train": tuple(range(n)), "held_out": tuple(range(n, len(population.tasks)))}


def _population(name: str, settings: Mapping[str, Any]) -> _Built:
    options = own_settings(POPULATIONS[name].build)
    if settings.get("hidden") and "hidden" not in options:
        raise SettingsError(
            f"hidden = {short(list(settings['hidden']))}: the policy of {name} has no hidden layers; leave it out"
        )
    for option in options:
        if not _hashable(settings[option]):
            raise SettingsError(
                f"{option} = {short(settings[option])}: a population's option is never changed, which a list can be; "
                "annotate it as a tuple, e.g. tuple[float, ...]"
            )
    return _built(POPULATIONS[name].build, tuple((option, settings[option]) for option in options))


class _Built(NamedTuple):
    """A population, and what the oracles that cover it answer, the default first."""

    population: Population
    answered: Mapping[str, frozenset[str]]


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@lru_cache(maxsize=64)
def _built(build: Callable[..., Population], options: tuple[tuple[str, Any], ...]) -> _Built:
    try:
        population = build(**dict(options))
    except ValueError as error:
        raise SettingsError(" ".join(str(error).split())) from None
    task, policy = population.train[0], population.policy
    covered = [oracle for oracle in covering(task, policy) if oracle != "continuing" or population.gamma < 1]
    return _Built(population, {oracle: answers(oracle, task, policy) for oracle in covered})


def _one_line(error: ValidationError, letters: Mapping[str, Letter]) -> str:
    """Every setting at fault with what is wanted of it, in one line."""
    faults = dict[str, str]()
    for fault in error.errors():
        (name, *_), given, wanted = fault["loc"], short(fault["input"]), fault["msg"]
        faults[str(name)] = f"{name} = {given}: {wanted[0].lower()}{wanted[1:]}"
    said = {name: letters[name].description for name in faults if name in letters}
    return "; ".join(f"{fault} ({said[name]})" if said.get(name) else fault for name, fault in faults.items())
