"""The federation on Ray actors: the same bytes as in process, and errors that keep their first cause."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tiny import FAULTY, bytes_of, small

from raypfrl import AgentError, Training
from raypfrl.populations import POPULATIONS

CONFIGS = {
    "one theta": small("gridworld", "first_order", n=3, oracle="autodiff", rounds=3),
    "own thetas": small("navigation", "independent", n=3, oracle="autodiff", evaluate=()),
    "a cohort": small("gridworld", n=3, cohort=2, oracle="exact", rounds=6, evaluate=(2,)),
    "one agent": small("bandit", n=1, oracle="exact"),
    "an event clock": small("gridworld", n=3, oracle="exact", clock="events", task_times=(1, 2, 5), rounds=7),
    "continuous actions": small("quadratic", n=3, oracle="exact"),
    "observations standardised": small("gymnasium", n=3, env_id="Pendulum-v1", vary="g", standardise=3),
}


def restless():
    """The class of an agent actor that takes its time, whose global generators are moved before every call, and that
    finds theta read-only. Made here, so that Ray takes it along by value."""
    from raypfrl.federation.actors import AgentHost

    class Restless(AgentHost):
        def __init__(self):
            from tiny import FAULTY

            from raypfrl.populations import POPULATIONS

            super().__init__()
            POPULATIONS.update(FAULTY)

        def answers(self, config, calls, round, phase):
            self._disturb(calls)
            return super().answers(config, calls, round, phase)

        def evaluations(self, config, calls, round):
            self._disturb(calls)
            return super().evaluations(config, calls, round)

        def _disturb(self, calls):
            import random

            import numpy as np
            import torch

            for call in calls:
                for array in [*call.down.values(), *(call.kept or {}).values()]:
                    assert not array.flags.writeable
            value = time.time_ns() % 2**31
            random.seed(value)
            np.random.seed(value)  # noqa: NPY002
            torch.manual_seed(value)
            time.sleep(0.05 * random.random())

    return Restless


@pytest.fixture(scope="module")
def actors():
    """Three restless actors on a local Ray of two CPUs: real processes that finish in any order."""
    ray = pytest.importorskip("ray")
    from raypfrl.sweeps.cluster import _of_its_own

    tests = str(Path(__file__).parent)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with _of_its_own():  # which waits for Ray for as long as a busy machine needs
        ray.init(
            address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
            runtime_env={"env_vars": {"PYTHONPATH": tests}},
        )  # fmt: skip
    remote = ray.remote(num_cpus=0)(restless())
    yield [remote.remote() for _ in range(3)]
    ray.shutdown()


def run(config, actors=None):
    """theta's bytes and the metrics rows, without what a clock says (as text: nan is not equal to itself)."""
    from raypfrl.federation.actors import OnActors

    training = Training(config, OnActors(config, actors) if actors else None)
    rows = [{name: value for name, value in row.items() if "seconds" not in name} for row in training]
    return bytes_of(training.server), [repr(row) for row in rows]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_the_bytes_do_not_depend_on_the_number_of_actors(actors, config):
    """In process; on one actor, on two, on three: one an agent, or more actors than agents."""
    expected = run(config)
    for number in (1, 2, 3):
        assert run(config, actors[:number]) == expected


def test_the_bytes_of_curvature_products(actors):
    """Forward mode too, on both actors of two."""
    config = small("quadratic", "exact", n=2, oracle="autodiff", evaluate=())
    assert run(config, actors[:2]) == run(config)


def test_actors_are_reused_by_another_run_and_by_the_first_again(actors):
    """What an actor keeps is a cache of its last run's agents."""
    one, other = CONFIGS["one theta"], CONFIGS["one theta"].model_copy(update={"seed": 1})
    expected = run(one)
    assert run(other, actors) != expected
    assert run(one, actors) == expected


def test_interrupted_in_process_and_resumed_on_actors(actors):
    """A checkpoint does not know where its agents lived."""
    from raypfrl.federation.actors import OnActors

    config = CONFIGS["one theta"]
    training = Training(config)
    next(training), next(training)
    resumed = Training(config, OnActors(config, actors[:2]), training.state())
    list(resumed)
    assert bytes_of(resumed.server) == run(config)[0]


def test_an_actor_computes_on_one_thread(actors):
    import ray

    run(CONFIGS["one theta"], actors)
    for about in ray.get([actor.about.remote() for actor in actors]):
        assert about["torch_threads"] == 1


@pytest.fixture
def faulty(monkeypatch):
    """The populations whose agent 2 breaks; the actors know them already."""
    for name, family in FAULTY.items():
        monkeypatch.setitem(POPULATIONS, name, family)


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    ("fault", "words"),
    [("raises", "OSError: the sensor does not answer at step 7"), ("mumbles", r"ValueError: caf\udce9 at\nstep 7")],
)
def test_an_environment_that_raises_is_told_as_in_process(actors, number, fault, words):
    """Agent, round, local step, batch and the first cause, and no other process's traceback in the message. Words that
    are no UTF-8 would end Ray's process."""
    config = small(f"faulty_{fault}", n=4, horizon=15)
    with pytest.raises(AgentError) as told:
        run(config, actors[:number])
    assert str(told.value) == f"agent 2, round 0, local step 0, inner batch: episode 0, decision 6: {words}"


@pytest.mark.usefixtures("faulty")
def test_an_agent_that_diverges_ends_the_run_as_in_process(actors):
    config = small("faulty_nan", n=4, horizon=15)
    theta, rows = run(config, actors)
    assert (theta, rows) == run(config)
    assert "'status': 'diverged'" in rows[-1]
    place = "agent 2, round 0, local step 0, inner batch: episode 0, decision 6: the environment's reward is nan"
    assert place in rows[-1]


def test_an_actor_answers_after_an_agents_error(actors):
    """An error is an answer: the actor lives, and serves the next run."""
    config = CONFIGS["a cohort"]
    assert run(config, actors) == run(config)
