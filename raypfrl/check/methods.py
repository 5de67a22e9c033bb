"""What has to be true of a method, whatever it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from raypfrl.check.agents import Backwards, Forgetful, Poisoned, Recorded, outcome
from raypfrl.check.found import Advice, Found, Wrong, report
from raypfrl.check.places import declared, places, small
from raypfrl.config import RunConfig
from raypfrl.federation import InProcess, Training
from raypfrl.methods import METHODS, Method
from raypfrl.policies import PARTS
from raypfrl.sweeps.results import pack, unpack


def check_method(method: str | Method, more: tuple[str, ...] = ()) -> Iterator[Found]:
    """Look at a method of the registry, or one that is given: by itself, and as it runs on small populations of the
    registry and on ``more``."""
    if isinstance(method, Method):
        name = "the method given"
        METHODS[name] = method
        try:
            yield from check_method(name, more)
        finally:
            del METHODS[name]
        return
    about, one = f"method {method}", METHODS[method]
    yield from report(about, {"its settings say what they mean": lambda: described(one)})
    asked, runnable = set[str](), [place for place in places(more) if not place.lacking(one)]
    for place in runnable:
        run = OneRun(lambda place=place: small(place, method), asked)  # type: ignore[misc]
        for number, found in enumerate(report(f"{about} on {place}", run.looks())):
            yield found
            if number == 0 and found.verdict == "wrong":  # what follows would only repeat it
                break
    yield from report(about, {"it declares what it asks": lambda: as_declared(one, asked, bool(runnable))})


def described(method: Method) -> str:
    """Whether every setting has a meaning, and the method a line about itself."""
    if dumb := [name for name, letter in method.settings.items() if not letter.description]:
        raise Advice(f"not {', '.join(dumb)}; annotate it: Annotated[float, Field(description=...)]")
    if not method.summary.strip():
        raise Advice("but the method has no docstring to be listed with")
    return ", ".join(method.settings)


def as_declared(method: Method, asked: set[str], ran: bool) -> str:
    """Whether the questions that an oracle was asked are those of ``asks``; every oracle answers two without a word."""
    said = declared(method)
    if not ran:
        raise Wrong(f"{', '.join(sorted(said))}, which nothing that it could be tried on answers")
    asked = asked - {"policy_gradient", "returns"}
    if hidden := sorted(asked - said):
        raise Wrong(
            f"it asks {', '.join(hidden)}; put @asks({', '.join(map(repr, hidden))}) before the function that does"
        )
    if unasked := sorted(said - asked - PARTS.keys() - {"returns"}):
        raise Advice(f"it declares {', '.join(unasked)} and has not asked with these settings")
    return ", ".join(sorted(said)) or "policy gradients alone"


class OneRun:
    """A method in one place: the run as it is, and the same run under what may happen to it anywhere."""

    def __init__(self, config: Callable[[], RunConfig], asked: set[str]) -> None:
        self._make, self._asked = config, asked

    @cached_property
    def config(self) -> RunConfig:
        """Its settings."""
        return self._make()

    @cached_property
    def quiet(self) -> tuple[Training, Recorded, tuple[dict[str, bytes], list[str]]]:
        """The run with nothing in its way."""
        agents = Recorded(self.config)
        training = Training(self.config, agents)
        expected = outcome(training)
        self._asked |= agents.asked
        return training, agents, expected

    def looks(self) -> Mapping[str, Callable[[], str]]:
        """What to look at, the run itself first; what follows means nothing where that is wrong."""
        return {
            "its steps are finite": self.finite,
            "its messages are flat arrays, and counted": self.messages,
            "agents that are made anew for every call": lambda: self.same(Forgetful),
            "agents that answer in another order": lambda: self.same(Backwards),
            "global generators are neither read nor moved": self.generators,
            "killed after every round and restored": self.killed,
        }

    def finite(self) -> str:
        """Whether two rounds run, and change something."""
        training, _, (state, rows) = self.quiet
        if "'status': 'finished'" not in rows[-1]:
            raise Wrong(rows[-1].partition("'message': ")[2].partition("', 'eval")[0].strip("'\""))
        first = Training(self.config)
        next(first)
        before = {name: array.tobytes() for name, array in first.server.arrays.items()}
        after = {name: array.tobytes() for name, array in training.server.arrays.items()}
        if before == after and not any(training.server.kept.values()):
            raise Advice("two rounds have changed nothing")
        return f"{self.config.rounds} rounds, {len(state)} arrays and numbers in a checkpoint"

    def messages(self) -> str:
        """Whether arrays are as a checkpoint and the counts need them."""
        training, agents, _ = self.quiet
        if agents.odd:
            raise Wrong(f"{', '.join(sorted(agents.odd))}; give one axis")
        if agents.floats != training.server.spent.floats_sent:
            raise Wrong(f"{training.server.spent.floats_sent} counted, and {agents.floats} sent")
        sent = agents.floats / self.config.rounds / len(self.config.agents())
        return f"{sent:g} a round and agent, theta has {self.config.build_population().policy.dim}"

    def same(self, agents: Callable[[RunConfig], InProcess]) -> str:
        """Whether agents that work in another way give the same bytes."""
        return self.compared(outcome(Training(self.config, agents(self.config))))

    def generators(self) -> str:
        """Whether random numbers come from the streams alone."""
        agents = Poisoned(self.config)
        compared = self.compared(outcome(Training(self.config, agents)))
        if agents.moved:
            raise Wrong("they are moved: draw from the streams of agent.step()")
        return compared

    def killed(self) -> str:
        """Whether a run that goes on from any of its checkpoints, as they are on the disk, ends as a whole one."""
        rows = self.quiet[2][1]
        for after in range(1, len(rows)):
            first = Training(self.config)
            for _ in range(after):
                next(first)
            resumed = outcome(Training(self.config, state=unpack(pack(first.state()))))
            self.compared((resumed[0], rows[:after] + resumed[1]))
        return "the same bytes"

    def compared(self, found: tuple[dict[str, bytes], list[str]]) -> str:
        """Raises Wrong where a run has not ended as the quiet one."""
        _, _, (state, rows) = self.quiet
        if found[0] != state:
            other = [name for name in state | found[0] if state.get(name) != found[0].get(name)]
            raise Wrong(
                f"other bytes in {', '.join(other)}: something is remembered, or drawn, outside of what travels"
            )
        if found[1] != rows:
            raise Wrong("other metrics: its evaluation remembers or draws something")
        return "the same bytes"
