"""The exact gridworld, and the same one as a gymnasium id like any other, also with ends: the same objective."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from raypfrl import RunConfig, train
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.oracles.exact import ExactOracle
from raypfrl.policies import TabularSoftmax
from raypfrl.populations import MDP, POPULATIONS, Family, Variant, environments
from raypfrl.populations.gridworld import GridworldEnv, GridworldTask
from raypfrl.streams import Purpose, Stream

GOAL, HORIZON, GAMMA = (0, 2), 11, 0.9
BATCHES, M = 30, 80


class GoalEnds(GridworldEnv):
    """The episode ends with the decision that is taken in the goal; what is shown then is another place."""

    def __init__(self, end, **settings):
        super().__init__(**settings)
        self.end = end

    def step(self, action):
        state, reward, _, late, info = super().step(action)
        over = bool(info["success"])
        return (7 if over else state), reward, over and self.end == "terminated", late or over, info


gymnasium.register(id="tiny/GoalEnds-v0", entry_point=GoalEnds)


def goes_on():
    """The gridworld of the paper: the goal does not absorb."""
    return GridworldTask(GOAL, HORIZON).mdp(), "raypfrl/Gridworld-v0", {}


def ends(how):
    """One more state, without reward, which every decision in the goal leads to and none leaves."""
    P, r, mu, distance = GridworldTask(GOAL, HORIZON).mdp()
    over, goal = len(mu), int(np.flatnonzero(distance == 0)[0])
    absorbing = np.zeros((over + 1, 4, over + 1))
    absorbing[:over, :, :over] = P.dense()
    absorbing[goal] = 0
    absorbing[[goal, over], :, over] = 1
    mdp = MDP(absorbing, np.vstack([r, np.zeros(4)]), np.append(mu, 0.0), np.append(distance, 0.0))
    return mdp, "tiny/GoalEnds-v0", {"end": how}


@pytest.mark.parametrize(
    "variant", [goes_on(), ends("terminated"), ends("truncated")], ids=["goes on", "terminated", "truncated"]
)
def test_return_gradient_and_product_are_the_exact_ones(variant):
    """Within three standard errors along the exact answer and four random directions; along the first one the answers
    are large against them, so that being wrong by half would be seen."""
    mdp, env_id, more = variant
    agents = [Variant({"goal": GOAL, "horizon": HORIZON, **more})]
    population = environments("grid", env_id, agents, gamma=GAMMA, horizon=HORIZON, hidden=())
    assert population.policy == TabularSoftmax(25, 4)
    sampling = AutodiffOracle(population.train[0], population.policy, GAMMA, HORIZON)
    exact = ExactOracle(mdp, TabularSoftmax(len(mdp.mu), 4), GAMMA, HORIZON)
    rng = np.random.default_rng(0)
    theta = 0.7 * rng.normal(size=100)

    def whole(x):
        """With a row for the state after the end, where nothing that the policy does matters."""
        return np.append(x, np.zeros(exact._policy.dim - 100))

    stream = Stream(0, 0, 0, 0, Purpose.EVALUATE)
    gradient = exact.policy_gradient(whole(theta), 0, stream)
    v = gradient[:100] / np.linalg.norm(gradient)
    product = exact.hessian_vector_product(whole(theta), whole(v), 0, stream)
    assert not gradient[100:].any()
    assert not product[100:].any()
    batches = [sampling.sample(theta, M, Stream(0, 0, k, 0, Purpose.HESSIAN)) for k in range(BATCHES)]
    assert max(batch.lengths.max() for batch in batches) == HORIZON + 1
    assert (min(batch.lengths.min() for batch in batches) <= HORIZON) == ("end" in more)
    discounts = GAMMA ** np.arange(HORIZON + 1)
    returns = [[(batch.rewards * discounts[batch.columns]).sum() / M] for batch in batches]
    answers = {
        "return": (returns, np.array([exact.returns(whole(theta), 0, stream).return_])),
        "gradient": ([sampling.policy_gradient_on(batch, theta) for batch in batches], gradient[:100]),
        "product": ([sampling.hessian_vector_product_on(batch, theta, v) for batch in batches], product[:100]),
        "causal": ([sampling.hessian_vector_product_on(batch, theta, v, "causal") for batch in batches], product[:100]),
    }
    for name, (found, truth) in answers.items():
        unit = truth / np.linalg.norm(truth)
        directions = np.vstack([unit, rng.normal(size=(4, len(truth)))])
        along = np.array(found) @ directions.T
        error = along.std(0, ddof=1) / np.sqrt(BATCHES)
        assert (np.abs(along.mean(0) - directions @ truth) < 3 * error).all(), name
        assert np.linalg.norm(truth) > 6 * error[0], f"{name}: too noisy to tell anything"


class Counted(GoalEnds):
    """Counts the episodes of all its kind, and is not asked for anything after an end."""

    episodes = 0
    over = True

    def reset(self, **options):
        Counted.episodes += 1
        self.over = False
        return super().reset(**options)

    def step(self, action):
        assert not self.over, "an action after the end"
        answer = super().step(action)
        self.over = answer[2] or answer[3]
        return answer


gymnasium.register(id="tiny/Counted-v0", entry_point=Counted)


@pytest.mark.parametrize(
    ("method", "a_step"), [("exact", ("m_in", "m_h", "m_out")), ("first_order", ("m_in", "m_out"))]
)
def test_a_round_is_tau_times_the_batches_and_an_evaluation_what_it_says(method, a_step, monkeypatch):
    def counted(*, n: int = 2, gamma: float = 0.9, horizon: int = 4):
        agents = [Variant({"goal": (0, k), "horizon": horizon, "end": "terminated"}) for k in range(n)]
        return environments("counted", "tiny/Counted-v0", agents, gamma=gamma, horizon=horizon, hidden=())

    monkeypatch.setitem(POPULATIONS, "counted", Family(counted))
    sizes = {"m_in": 5, "m_h": 7, "m_out": 70}
    given = {name: sizes[name] for name in a_step}
    config = RunConfig(
        population="counted", method=method, rounds=2, tau=3, alpha=0.1, beta=0.1, evaluate=1, m_adapt=(0, 4),
        m_eval=9, **given,
    )  # fmt: skip
    training, agents = train(config), 2
    evaluation = agents * (4 + 2 * 9)
    Counted.episodes = 0
    next(training)
    assert Counted.episodes == evaluation
    for round in (1, 2):
        metrics = next(training)
        trained = round * config.tau * sum(given.values())
        assert Counted.episodes == (round + 1) * evaluation + agents * trained
        assert metrics["trajectories"] == trained
