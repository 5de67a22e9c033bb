"""The federation in this process: Algorithm 1, and that its bytes depend on nothing but the settings."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch
from tiny import FAULTY, small

from raypfrl import AgentError, Diverged, RunConfig, Training, train
from raypfrl.federation import InProcess, Server, Update, build_agent
from raypfrl.methods import METHODS, Method
from raypfrl.metrics import METRICS, OTHER_SPLIT
from raypfrl.oracles import Guarded, Meter, Outcome, covering
from raypfrl.populations import POPULATIONS
from raypfrl.streams import LocalStep, Purpose, Stream

TIMES = ("seconds", "kernel_seconds", "evaluation_seconds")


def run(config, agents=None):
    """theta's bytes and the metrics rows, without what a clock says."""
    training = Training(config, agents)
    rows = [without_times(metrics) for metrics in training]
    return training.server.theta.tobytes(), rows


def without_times(metrics):
    """The metrics that are equal in equal runs; nan, which is not equal to itself, as text."""
    return {name: "nan" if value != value else value for name, value in metrics.items() if name not in TIMES}


# --- Algorithm 1 ------------------------------------------------------------------------------------------------------


def test_algorithm_1_written_out():
    """tau steps theta + beta d from the broadcast theta in every agent, then the average in agent order."""
    config = small("gridworld", n=3, oracle="exact")
    agents = [build_agent(config, number) for number in range(3)]
    theta = config.build_population().initial()
    for round_ in range(config.rounds):
        locals_ = []
        for agent in agents:
            local = theta
            for t in range(config.tau):
                place = LocalStep(config.seed, agent.number, round_, t)
                local = local + config.beta * METHODS["exact"].direction(
                    agent.oracle, local, place, **config.method_settings()
                )
            locals_.append(local)
        theta = (locals_[0] + locals_[1] + locals_[2]) / 3
    assert run(config)[0] == theta.tobytes()


def test_agents_know_their_round_and_local_step():
    """Fresh batches: no stream is used twice in a run, and none is another agent's."""
    seen = []

    def direction(oracle, theta, step, *, alpha):
        seen.extend([step.inner, step.hessian, step.outer])
        return np.zeros_like(theta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "spy", Method(direction))
        run(small("gridworld", "spy", n=3, rounds=3, tau=4, seed=9))
    assert len(seen) == len(set(seen)) == 3 * 3 * 4 * 3
    assert {stream.seed for stream in seen} == {9}
    assert {stream.agent for stream in seen} == {0, 1, 2}
    assert {(stream.round, stream.step) for stream in seen} == {(k, t) for k in range(3) for t in range(4)}


def test_the_counts_of_a_run():
    """Per agent: rounds x tau x (m_in + m_h + m_out) trajectories; 2 d floats an agent a round."""
    *_, last = train(small("gridworld", n=3, rounds=2, tau=2, oracle="autodiff"))
    assert last["round"] == 2
    assert last["trajectories"] == 2 * 2 * (63 + 64 + 62)
    assert last["env_steps"] == 3 * last["trajectories"] * 6
    assert last["floats_sent"] == 2 * 2 * 100 * 3
    assert 0 < last["kernel_seconds"] < last["seconds"]
    assert 0 < last["evaluation_seconds"] < last["seconds"]


def test_client_drift_is_recorded():
    """The root mean square distance of what came back from its average."""
    config = small("gridworld", n=3, rounds=1, oracle="exact")
    first, last = train(config)
    results = np.array(
        [update.theta for update in InProcess(config).local_updates([0, 1, 2], config.build_population().initial(), 0)]
    )
    distances = np.linalg.norm(results - results.mean(axis=0), axis=1)
    assert first["drift"] == 0
    assert last["drift"] == pytest.approx(np.sqrt((distances**2).mean()))
    assert last["drift"] > 0


def test_one_agent_alone_does_not_drift():
    assert [metrics["drift"] for metrics in train(small("gridworld", n=1, oracle="exact"))] == [0, 0, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_any_number_of_agents(n):
    config = small("gridworld", n=n, oracle="exact")
    training = train(config)
    *_, last = training
    assert last["status"] == "finished"
    assert training.server.theta.shape == (100,)
    assert last["after/return"] > last["before/return"] > 0.05


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_without_sampling_noise(method):
    """On the exact oracle five rounds raise what the method climbs (adaptation included)."""
    first, *_, last = train(small("gridworld", method, n=3, rounds=5, tau=5, oracle="exact"))
    assert last["before/return"] > first["before/return"]
    assert last["after/return"] > first["after/return"]


def test_the_first_metrics_are_those_of_theta_0():
    config = small("gridworld", oracle="exact", n=8, horizon=15)
    first = next(train(config))
    assert first["round"] == 0
    assert first["before/return"] == pytest.approx(0.2439, abs=5e-5)
    assert (first["trajectories"], first["env_steps"], first["floats_sent"], first["drift"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("population", POPULATIONS)
def test_metrics_are_in_the_glossary(population):
    for metrics in train(small(population)):
        names = set(metrics) - {"status", "evaluations", "message"}
        assert names >= {"round", "trajectories", "before/return", "after/return"}
        for name in names:
            assert name.removeprefix(OTHER_SPLIT) in METRICS
        rows = metrics["evaluations"]
        assert {row["split"] for row in rows} == {"train", "held_out"}
        assert len(rows) == 2 * 2  # two entries of m_adapt
        assert rows[0]["return"] == metrics["before/return"]
        assert rows[1]["return"] == metrics["after/return"]


def test_after_is_the_largest_adaptation_step():
    """exact counts as the largest; the order of the list does not matter."""
    for m_adapt, largest in (((20, 0, 5), 20), ((0, "exact", 20), "exact"), ((0,), 0)):
        metrics = next(train(small("gridworld", m_adapt=m_adapt, oracle="autodiff")))
        rows = {row["m_adapt"]: row["return"] for row in metrics["evaluations"] if row["split"] == "train"}
        assert tuple(rows) == m_adapt
        assert metrics["after/return"] == rows[largest]
        assert metrics["before/return"] == rows[0]
    assert "before/return" not in next(train(small("gridworld", m_adapt=(5,), oracle="autodiff")))


def test_held_out_agents_learn_where_they_are_the_participants():
    """And the training agents are the ones that are only evaluated."""
    config = small("navigation", participants="held_out", n=3, oracle="autodiff")
    assert config.agents() == (3,)
    metrics = next(train(config))
    rows = {row["split"]: row["return"] for row in metrics["evaluations"] if row["m_adapt"] == 0}
    assert metrics["before/return"] == rows["held_out"]
    assert metrics["train/before/return"] == rows["train"]


@pytest.mark.parametrize(("evaluate", "rounds"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4, 5]), (9, [0, 5]),
                                                  ((1, 4), [0, 1, 4, 5]), ((), [0, 5])])  # fmt: skip
def test_when_a_run_is_evaluated(evaluate, rounds):
    metrics = list(train(small("bandit", rounds=5, evaluate=evaluate, oracle="exact")))
    assert [row["round"] for row in metrics] == rounds
    assert [row["status"] for row in metrics] == ["running"] * (len(rounds) - 1) + ["finished"]


# --- cohorts ----------------------------------------------------------------------------------------------------------


class Spy(InProcess):
    """Writes down who was asked for an update."""

    def __init__(self, config):
        super().__init__(config)
        self.cohorts = []

    def local_updates(self, numbers, theta, round):
        self.cohorts.append(tuple(numbers))
        return super().local_updates(numbers, theta, round)


def test_trajectories_are_counted_per_agent_that_learns():
    """The axis of cost: of four agents one takes part in each of two rounds."""
    config = small("gridworld", "first_order", n=4, cohort=1, rounds=2, tau=1)
    *_, last = train(config)
    assert last["trajectories"] == 2 * (config.m_in + config.m_out) / 4


def test_cohorts_are_drawn_anew_without_replacement_and_the_same_again():
    config = small("gridworld", n=8, cohort=3, rounds=20, evaluate=(), oracle="exact", tau=1)
    spies = [Spy(config), Spy(config), Spy(config.model_copy(update={"seed": 1}))]
    results = [run(spy._config, spy) for spy in spies]
    cohorts = spies[0].cohorts
    assert all(len(set(cohort)) == 3 and list(cohort) == sorted(cohort) for cohort in cohorts)
    assert len(set(cohorts)) > 10
    assert set().union(*cohorts) == set(range(8))
    assert spies[1].cohorts == cohorts != spies[2].cohorts
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert results[0][1][-1]["floats_sent"] == 20 * 2 * 3 * 100


def test_a_cohort_is_uniform():
    """Each of eight agents is in 3/8 of 2000 cohorts, within 4 standard errors."""
    server = Server(small("gridworld", n=8, cohort=3), InProcess(small("gridworld", n=8)))
    counts = np.zeros(8)
    for server.round in range(2000):
        counts[server.cohort()] += 1
    assert np.abs(counts / 2000 - 3 / 8).max() < 4 * np.sqrt(3 / 8 * 5 / 8 / 2000)


def test_a_cohort_of_all_is_no_cohort():
    runs = [run(small("gridworld", n=3, oracle="exact", cohort=cohort)) for cohort in (0, 3)]
    assert runs[0] == runs[1]


def test_who_is_not_in_the_cohort_does_not_matter():
    """The average is over the cohort alone; an independent agent outside it stays as it is."""
    config = small("navigation", "independent", n=3, cohort=1, rounds=1, oracle="autodiff")
    spy = Spy(config)
    training = Training(config, spy)
    before = training.server.theta.copy()
    list(training)
    (number,) = spy.cohorts[0]
    changed = [row for row in range(3) if training.server.theta[row].tobytes() != before[row].tobytes()]
    assert changed == [number]


# --- the same bytes ---------------------------------------------------------------------------------------------------


class Shuffled(InProcess):
    """Works through the agents in a random order, as if they finished so; answers in the order of the numbers."""

    order = random.Random(0)

    def _one_by_one(self, verb, numbers, theta, round):
        places = list(range(len(numbers)))
        self.order.shuffle(places)
        rows = [theta] * len(numbers) if theta.ndim == 1 else list(theta)
        answers = {place: verb([numbers[place]], rows[place], round)[0] for place in places}
        return [answers[place] for place in range(len(numbers))]

    def local_updates(self, numbers, theta, round):
        return self._one_by_one(super().local_updates, numbers, theta, round)

    def evaluations(self, numbers, theta, round):
        return self._one_by_one(super().evaluations, numbers, theta, round)


class ReadOnly(InProcess):
    """theta comes as Ray delivers it."""

    def local_updates(self, numbers, theta, round):
        theta.setflags(write=False)
        return super().local_updates(numbers, theta, round)

    def evaluations(self, numbers, theta, round):
        theta.setflags(write=False)
        return super().evaluations(numbers, theta, round)


class Forgetful(InProcess):
    """Every call finds new agents: nothing that a call needs is kept between calls."""

    def local_updates(self, numbers, theta, round):
        self._agents.clear()
        return super().local_updates(numbers, theta, round)


def sampling(name):
    """The oracles that sample, of those that cover the population."""
    population = small(name).build_population()
    return [oracle for oracle in covering(population.train[0], population.policy) if oracle != "exact"]


CONFIGS = [
    small(name, method, n=2, oracle=oracle)
    for name, method in (("gridworld", "exact"), ("navigation", "independent"))
    for oracle in sampling(name)
]
EXPECTED = {}


@pytest.fixture(params=CONFIGS, ids=lambda config: f"{config.population}-{config.method}-{config.oracle}")
def reference(request):
    """A run's settings, and what it gives undisturbed."""
    config = request.param
    if config.key() not in EXPECTED:
        EXPECTED[config.key()] = run(config)
    return config, EXPECTED[config.key()]


def test_a_run_can_be_repeated(reference):
    config, expected = reference
    assert run(config) == expected
    assert run(config.model_copy(update={"seed": 1})) != expected


@pytest.mark.parametrize("agents", [Shuffled, ReadOnly, Forgetful])
def test_the_bytes_do_not_depend_on_how_the_agents_work(reference, agents):
    config, expected = reference
    assert run(config, agents(config)) == expected


def poison(value):
    """Every global generator at another place."""
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002
    torch.manual_seed(value)
    for _ in range(value):
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(1)


class Poisoned(InProcess):
    """Global generators are moved between any two calls."""

    calls = 0

    def local_updates(self, numbers, theta, round):
        Poisoned.calls += 1
        poison(Poisoned.calls)
        return super().local_updates(numbers, theta, round)

    def evaluations(self, numbers, theta, round):
        poison(77)
        return super().evaluations(numbers, theta, round)


def test_global_generators_are_neither_read_nor_moved(reference):
    config, expected = reference
    poison(5)
    assert run(config, Poisoned(config)) == expected
    poison(6)
    before = (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state())  # noqa: NPY002
    run(config)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tobytes() == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


def test_evaluating_more_changes_nothing_else(reference):
    config, (theta, rows) = reference
    rarely = config.model_copy(update={"evaluate": ()})
    more = config.model_copy(update={"m_adapt": (0, 5, 3, 20), "m_eval": 50})
    for changed in (rarely, more):
        other, other_rows = run(changed)
        assert other == theta
        for name in ("trajectories", "env_steps", "floats_sent", "drift"):
            assert other_rows[-1][name] == rows[-1][name]


def test_interrupted_at_any_evaluation_and_resumed_is_uninterrupted(reference):
    """The state goes through pickle, as in a checkpoint. After the end the last word is given again: it may be lost."""
    config, (theta, rows) = reference
    for interrupted_after in range(1, len(rows) + 1):
        first = Training(config)
        log = [without_times(next(first)) for _ in range(interrupted_after)]
        state = pickle.loads(pickle.dumps(first.state()))
        second = Training(config, state=state)
        again = [without_times(metrics) for metrics in second]
        assert log + again == rows if interrupted_after < len(rows) else again == rows[-1:]
        assert second.server.theta.tobytes() == theta
        assert second.server.theta.dtype == np.float64


def test_a_checkpoint_holds_arrays_and_numbers_only():
    training = train(small("gridworld", oracle="exact"))
    next(training)
    for name, value in training.state().items():
        assert isinstance(value, int | float | np.ndarray), name
    assert "seed" not in training.state(), "there is no random state to bring back"


def test_seconds_go_on_after_a_resume():
    training = train(small("gridworld", oracle="exact"))
    next(training)
    state = training.state() | {"seconds": 1000.0, "kernel_seconds": 900.0}
    metrics = next(Training(training.config, state=state))
    assert 1000 < metrics["seconds"] < 1100
    assert 900 < metrics["kernel_seconds"] < 1000


def test_two_trainings_in_one_process_one_after_the_other_and_interleaved(reference):
    config, expected = reference
    one, two = Training(config), Training(config.model_copy(update={"seed": 5}))
    rows = []
    for metrics, _ in zip(one, two, strict=True):
        rows.append(without_times(metrics))
    assert (one.server.theta.tobytes(), rows) == expected


# --- what goes wrong --------------------------------------------------------------------------------------------------


def nan_at(agent, round_, local_step):
    """A direction that stops being a number at one place."""

    def direction(oracle, theta, step, *, alpha):
        bad = (step.agent, step.round, step.step) == (agent, round_, local_step)
        return np.full_like(theta, np.nan) if bad else np.ones_like(theta)

    return Method(direction)


@pytest.mark.parametrize("local_step", [0, 1])
def test_an_agent_that_returns_nan_does_not_reach_the_global_model(monkeypatch, local_step):
    """Refused by the server: status diverged, the last finite theta kept, the place named."""
    monkeypatch.setitem(METHODS, "nan", nan_at(1, 1, local_step))
    training = train(small("gridworld", "nan", n=3, rounds=4, tau=2, beta=0.5, oracle="exact"))
    metrics = list(training)
    assert [row["status"] for row in metrics] == ["running", "running", "diverged"]
    assert metrics[-1]["evaluations"] == []
    assert "agent 1, round 1" in metrics[-1]["message"]
    assert "\n" not in metrics[-1]["message"]
    assert metrics[-1]["round"] == training.server.round == 1
    assert training.server.theta.tolist() == [1.0] * 100  # tau beta, after round 0
    assert list(training) == [], "a diverged run is over"
    with pytest.raises(StopIteration):
        next(training)


@pytest.fixture
def faulty(monkeypatch):
    """The populations whose agent 2 breaks."""
    for name, family in FAULTY.items():
        monkeypatch.setitem(POPULATIONS, name, family)


@pytest.mark.usefixtures("faulty")
def test_an_oracle_that_answers_nan_is_named_with_its_batch():
    """Agent 2's reward is not a number; its first batch tells."""
    training = train(small("faulty_nan", n=4, horizon=15))
    metrics = list(training)
    assert [row["status"] for row in metrics] == ["running", "diverged"]
    assert metrics[-1]["message"].startswith("agent 2, round 0, local step 0, inner batch: the policy gradient is not")
    assert not training.server.theta.any()


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_run_that_blows_up_by_itself_ends_as_diverged():
    """The quadratic population beyond its stable step: theta grows by a factor a step until it overflows."""
    training = train(small("quadratic", n=3, beta=1e60, tau=2, rounds=20))
    *_, last = training
    assert last["status"] == "diverged"
    assert "agent" in last["message"]
    assert np.isfinite(training.server.theta).all()
    assert last["round"] < 20


@pytest.mark.usefixtures("faulty")
def test_an_environment_that_raises_is_told_with_agent_round_step_batch_and_first_cause():
    with pytest.raises(AgentError) as told:
        list(train(small("faulty_raises", n=4, horizon=15)))
    assert str(told.value) == (
        "agent 2, round 0, local step 0, inner batch: OSError: the sensor does not answer at step 7"
    )
    assert isinstance(told.value.__cause__, OSError)


class Silly:
    """An oracle with answers that are not numbers."""

    meter = Meter()

    def policy_gradient(self, theta, m, stream):
        return np.array([0.0, np.inf])

    hessian_vector_product = None

    def mean_rewards(self, theta, m, stream):
        return np.array([np.nan])

    def returns(self, theta, m, stream):
        return Outcome(float("nan"), 0.0, 0.0)

    def __init__(self):
        self.hessian_vector_product = lambda theta, v, m, stream: np.array([np.nan, 0.0])


@pytest.mark.parametrize(
    ("question", "purpose", "message"),
    [
        ("policy_gradient", Purpose.OUTER, "local step 2, outer batch: the policy gradient is not finite (m = 7)"),
        ("hessian_vector_product", Purpose.HESSIAN,
         "local step 2, hessian batch: the Hessian-vector product is not finite (m = 7)"),
        ("mean_rewards", Purpose.INNER, "local step 2, inner batch: the reward is not finite (m = 7)"),
        ("returns", Purpose.EVALUATE, "evaluation, evaluate batch: the return is not finite (m = 7)"),
    ],
)  # fmt: skip
def test_the_guard_names_every_batch(question, purpose, message):
    arguments = [np.zeros(2)] * (2 if question == "hessian_vector_product" else 1)
    with pytest.raises(Diverged) as told:
        getattr(Guarded(Silly()), question)(*arguments, 7, Stream(0, 3, 12, 2, purpose))
    assert str(told.value).startswith(f"agent 3, round 12, {message}")
    assert "lower" in str(told.value), "no remedy"


def test_an_updates_fields():
    """What an agent sends back: one vector of d floats, and what it spent."""
    config = small("gridworld", oracle="exact")
    update = build_agent(config, 0).local_update(np.zeros(100), 0)
    assert isinstance(update, Update)
    assert update.theta.dtype == np.float64
    assert update.theta.nbytes == 8 * 100


def test_the_readmes_example():
    """The Python interface in three lines."""
    for metrics in train(RunConfig(population="gridworld", method="exact", rounds=1, oracle="exact")):
        assert set(metrics) >= {"round", "after/return"}
