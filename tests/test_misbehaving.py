"""Whatever an environment does with what it is given and gives: the bytes of its well-behaved twin, or a refusal that
names agent, round, local step, episode and decision."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from misbehaving import BROKEN, SOUND, H, env_id
from tiny import GymTask

from raypfrl.oracles import AgentError, Diverged, Guarded
from raypfrl.oracles.autodiff import AutodiffOracle
from raypfrl.policies import MLPGaussian, MLPSoftmax, TabularSoftmax
from raypfrl.streams import Purpose, Stream

STREAM = Stream(0, 3, 12, 2, Purpose.HESSIAN)
GAUSSIAN = MLPGaussian(2, 2, (3,))
TABLE = TabularSoftmax(3, 2)


def answers(task, policy, m=70):
    """The bytes of every kind of answer."""
    theta = np.random.default_rng(1).normal(size=policy.dim)
    oracle = Guarded(AutodiffOracle(task, policy, 0.9, H))
    return [
        oracle.policy_gradient(theta, m, STREAM).tobytes(),
        oracle.hessian_vector_product(theta, theta, m, STREAM).tobytes(),
        oracle.value_baseline(theta, m, STREAM).tobytes(),
        np.array(oracle.returns(theta, m, STREAM)).tobytes(),
    ], (oracle.meter.trajectories, oracle.meter.env_steps)


@pytest.fixture(scope="module")
def twin():
    return answers(GymTask("tiny/Walk-v0"), GAUSSIAN)


def test_the_twins_episodes_end_at_different_times(twin):
    """Else the table would see little."""
    batch = AutodiffOracle(GymTask("tiny/Walk-v0"), GAUSSIAN, 0.9, H).sample(
        np.random.default_rng(1).normal(size=GAUSSIAN.dim), 70, STREAM
    )
    assert len(set(batch.lengths.tolist())) > 3
    assert np.abs(batch.actions).max() > 0.5, "an action that is clipped"


@pytest.mark.parametrize("name", SOUND)
def test_it_has_the_bytes_of_its_well_behaved_twin(name, twin):
    assert answers(GymTask(env_id(name)), GAUSSIAN) == twin


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_refused_with_its_place(name):
    oracle = Guarded(AutodiffOracle(GymTask(env_id(name)), GAUSSIAN, 0.9, H))
    with pytest.raises(AgentError) as refusal:
        oracle.policy_gradient(np.zeros(GAUSSIAN.dim), 3, STREAM)
    message = str(refusal.value)
    decision = 0 if "reset" in name else 2
    where = f"agent 3, round 12, local step 2, hessian batch: episode 0, decision {decision}: "
    assert message.startswith(where)
    assert BROKEN[name][1] in message
    assert message.isprintable()
    assert len(message) < 2200
    assert str(pickle.loads(pickle.dumps(refusal.value))) == message


def test_ctrl_c_in_an_environment_is_ctrl_c():
    from misbehaving import breaking, raising

    class Interrupted(GymTask):
        pass

    import gymnasium

    gymnasium.register(id="tiny/Interrupted-v0", entry_point=breaking(raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        Guarded(AutodiffOracle(Interrupted("tiny/Interrupted-v0"), GAUSSIAN, 0.9, H)).returns(
            np.zeros(GAUSSIAN.dim), 3, STREAM
        )


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("observation", "environment's observation is not finite; mend the environment"),
        ("nan reward", r"environment's reward is nan for the action \[.*\]; mend the environment"),
        ("inf reward", r"environment's reward is inf for the action \[.*\]; mend the environment"),
        ("action", "policy's action is not finite; lower beta or alpha"),
    ],
)
def test_what_is_not_finite_is_told_as_diverged_and_whose_it_is(fault, remedy):
    import gymnasium
    from misbehaving import breaking

    gone = breaking(lambda given: (np.float32(np.nan) * given[0], *given[1:]))
    if "reward" in fault:
        gone = breaking(lambda given: (given[0], float(fault.split()[0]), *given[2:]))
    gymnasium.registry.pop("tiny/Gone-v0", None)
    gymnasium.register(id="tiny/Gone-v0", entry_point=gone)
    theta = np.zeros(GAUSSIAN.dim)
    theta[-1] = 800.0 if fault == "action" else 0.0  # log_std: exp overflows
    oracle = Guarded(AutodiffOracle(GymTask("tiny/Gone-v0"), GAUSSIAN, 0.9, H))
    with np.errstate(over="ignore"), pytest.raises(Diverged, match=f"round 12, .*hessian batch: .*{remedy}"):
        oracle.policy_gradient(theta, 3, STREAM)


# --- spaces ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1, -5])
@pytest.mark.parametrize("first", [0, 2])
def test_numbers_that_do_not_start_at_0_are_moved(start, first):
    """A policy counts from 0; the environment gets and shows its own numbers."""
    shifted = GymTask("tiny/States-v0", (("start", start), ("first", first)))
    assert answers(shifted, TABLE) == answers(GymTask("tiny/States-v0"), TABLE)


@pytest.mark.parametrize("seen", [np.int32, float, np.array, lambda state: np.array([state])])
def test_a_state_may_come_as_any_whole_number(seen):
    assert answers(GymTask("tiny/States-v0", (("seen", seen),)), TABLE) == answers(GymTask("tiny/States-v0"), TABLE)


@pytest.mark.parametrize("seen", [lambda state: -1, lambda state: 3, lambda state: 0.5, lambda state: float("nan")])
def test_a_state_that_there_is_not_is_refused(seen):
    """-1 would be the table's last row."""
    with pytest.raises(AgentError, match=r"episode 0, decision 0: .*"):
        answers(GymTask("tiny/States-v0", (("seen", seen),)), TABLE)


def test_a_policy_that_does_not_fit_the_actions_is_refused():
    with pytest.raises(AgentError, match=r"takes an action that Discrete\(2\) does not have"):
        answers(GymTask("tiny/States-v0"), TabularSoftmax(3, 4))
    with pytest.raises(AgentError, match=r"actions have shape \(1,\), those of Box.* \(2,\)"):
        answers(GymTask("tiny/Walk-v0"), MLPGaussian(2, 1, (3,)))
    with pytest.raises(AgentError, match=r"actions have shape \(\), those of Box.* \(2,\)"):
        answers(GymTask("tiny/Walk-v0"), MLPSoftmax(2, 3, (3,)))


def test_what_a_policy_does_with_its_arguments_is_its_own_affair():
    class Scribbler(MLPGaussian):
        def act(self, theta, observation, noise):
            action = super().act(theta, observation, noise)
            observation[:], noise[:], theta[:] = 7, 7, theta.copy()
            return action

        def log_prob(self, theta, observation, action):
            log_prob = super().log_prob(theta, observation.clone(), action.clone())
            observation.fill_(7)
            action.fill_(7)
            return log_prob

    assert answers(GymTask("tiny/Walk-v0"), Scribbler(2, 2, (3,))) == answers(GymTask("tiny/Walk-v0"), GAUSSIAN)
