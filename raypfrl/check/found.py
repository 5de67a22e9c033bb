"""What a check has found, in a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from raypfrl.oracles import AgentError, Diverged
from raypfrl.settings import SettingsError
from raypfrl.text import cause, message


class Found(NamedTuple):
    """about: the method or population; said: what was looked at, and what was seen."""

    about: str
    verdict: Literal["ok", "advice", "wrong"]
    said: str


class Wrong(Exception):
    """What was looked at is not as it has to be."""


class Advice(Exception):
    """It can be so, and better."""


def report(about: str, looks: Mapping[str, Callable[[], str]]) -> Iterator[Found]:
    """Look at one thing after the other; whatever is raised on the way is a finding. Each of ``looks``, by the name of
    what it looks at, gives what it has seen."""
    for what, look in looks.items():
        try:
            seen = look()
            yield Found(about, "ok", f"{what}: {seen}" if seen else what)
        except Advice as advice:
            yield Found(about, "advice", message(f"{what}: {advice}"))
        except (Wrong, AgentError, Diverged, SettingsError) as wrong:  # which say what is the matter themselves
            yield Found(about, "wrong", message(f"{what}: {wrong}"))
        except (Exception, SystemExit) as error:  # foreign code raises whatever it likes
            yield Found(about, "wrong", message(f"{what}: {cause(error)}"))
