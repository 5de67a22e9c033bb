"""A torch module of the user's own as a policy, and the device that its batches go to."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from raypfrl.oracles import ORACLES
from raypfrl.policies import MLPSoftmax, ModulePolicy
from raypfrl.populations import Variant, environments
from raypfrl.streams import Purpose, Stream

STREAM = Stream(0, 0, 0, 0, Purpose.OUTER)
OPTIONS = {"gamma": 0.9, "horizon": 6}


def oracle_of(population):
    return ORACLES["autodiff"](population.train[0], population.policy, population.gamma, population.horizon)


class Net(nn.Module):
    """MLPSoftmax's network, written in torch; it writes over its input and drops out in training."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, 5), nn.Linear(5, outputs)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x.mul_(2).div_(2)
        h = torch.tanh(self.first(x))
        return self.last(self.drop(h))


def test_a_module_is_the_network_that_it_writes():
    """theta in the order of its parameters, W transposed. Gradient, product and episodes are MLPSoftmax's."""
    ours, theirs = MLPSoftmax(4, 2, (5,)), ModulePolicy(partial(Net, 4, 2), outputs=2)
    assert ours.dim == theirs.dim
    theta = np.random.default_rng(0).normal(size=ours.dim)
    W1, b1, W2, b2 = np.split(theta, [20, 25, 35])
    moved = np.concatenate([W1.reshape(4, 5).T.ravel(), b1, W2.reshape(5, 2).T.ravel(), b2])
    population = [environments("x", "CartPole-v1", [Variant()], policy=p, **OPTIONS) for p in (ours, theirs)]
    one, other = map(oracle_of, population)
    for question in (
        lambda o, t: o.policy_gradient(t, 9, STREAM),
        lambda o, t: o.hessian_vector_product(t, np.ones(t.size), 9, STREAM),
    ):
        g, h = question(one, theta), question(other, moved)
        G1, c1, G2, c2 = np.split(g, [20, 25, 35])
        assert h == pytest.approx(np.concatenate([G1.reshape(4, 5).T.ravel(), c1, G2.reshape(5, 2).T.ravel(), c2]))


def test_a_module_starts_from_the_stream_and_torchs_generator_is_left_alone():
    policy = ModulePolicy(partial(Net, 3, 1), outputs=1, gaussian=True)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (policy.init(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert first.shape == (policy.dim,)
    assert policy.dim == ModulePolicy(partial(Net, 3, 1), 1, gaussian=True, std=0.3).dim + 1
    population = environments("x", "Pendulum-v1", [Variant()], policy=policy, **OPTIONS)
    assert np.isfinite(oracle_of(population).policy_gradient(first, 4, STREAM)).all()


def test_a_module_with_another_output_is_refused():
    with pytest.raises(
        ValueError, match=r"the module gives \(1, 3\) for 1 observations; outputs = 2 asks for \(1, 2\)"
    ):
        environments("x", "CartPole-v1", [Variant()], policy=ModulePolicy(partial(Net, 4, 3), 2), **OPTIONS)


def test_a_modules_batches_go_to_its_device_and_decisions_do_not():
    """torch's device without memory computes shapes alone and mixes with no other: what comes back from it is the first
    thing that cannot be."""
    on_cpu, elsewhere = (ModulePolicy(partial(Net, 4, 2), 2, device=device) for device in ("cpu", "meta"))
    theta, o, u = on_cpu.init(np.random.default_rng(0)), np.ones((3, 4)), np.array([0.2, 0.5, 0.9])
    decided = on_cpu.act(theta, o, u)
    assert elsewhere.init(np.random.default_rng(0)).tobytes() == theta.tobytes()
    assert np.array_equal(elsewhere.act(theta, o, u), decided)
    given = torch.tensor(theta), torch.tensor(o), torch.tensor(decided)
    assert on_cpu.log_prob(*given).shape == (3,)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        elsewhere.log_prob(*given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_modules_gradient_and_product_on_a_gpu_are_the_cpus():
    policies = [ModulePolicy(partial(Net, 4, 2), 2, device=device) for device in ("cpu", "cuda")]
    theta, v = policies[0].init(np.random.default_rng(0)), np.ones(policies[0].dim)
    population = [environments("x", "CartPole-v1", [Variant()], policy=p, **OPTIONS) for p in policies]
    here, there = map(oracle_of, population)
    assert there.policy_gradient(theta, 9, STREAM) == pytest.approx(here.policy_gradient(theta, 9, STREAM))
    product = here.hessian_vector_product(theta, v, 9, STREAM)
    assert there.hessian_vector_product(theta, v, 9, STREAM) == pytest.approx(product)


@pytest.mark.parametrize("device", [*([] if torch.cuda.is_available() else ["cuda"]), "cuda:99", "abacus"])
def test_a_device_that_is_not_there_is_one_line(device):
    with pytest.raises(ValueError, match=f"^device = '{device}' is not there; give 'cpu'") as told:
        ModulePolicy(partial(Net, 4, 2), 2, device=device)
    assert "\n" not in str(told.value)
