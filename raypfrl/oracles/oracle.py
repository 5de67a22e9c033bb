"""The oracle: what an agent can answer about its own objective J_i, and what the answers cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from raypfrl.policies import Vector
from raypfrl.streams import Stream

Matrix = NDArray[np.float64]
BEGIN = -1.0  # the position of a chain that has not begun: s ~ mu, a ~ pi(.|s)

# Which decisions a reward is credited to in (3), beside the curvature of log pi itself: all, those up to it, or none.
Credit = Literal["all", "causal", "none"]
CREDITS: tuple[str, ...] = get_args(Credit)


class Outcome(NamedTuple):
    """What a policy achieves, as means over the batch (over q for the exact oracle).

    return_: the discounted return; success: the share of episodes that enter the goal region at some step;
    final_distance: the distance to the goal at the last decision (nan where a task has no goal).
    """

    return_: float
    success: float
    final_distance: float


@dataclass
class Meter:
    """What an oracle has spent since it was made: trajectories, environment steps, seconds of computing."""

    trajectories: int = 0
    env_steps: int = 0
    seconds: float = 0.0


class Oracle:
    """The questions that can be asked. An oracle is a subclass that defines those it answers, ``answers``; the others
    come to ``ask``. So a wrapper around an oracle defines ``ask`` alone, and a new question is one method here and one
    in each oracle that answers it.

    Estimates are means over m fresh trajectories of ``stream``; the same stream gives the same answer, bit for bit.
    theta, v and the answers are flat float64 vectors of the policy's dim; theta may be read-only. What was spent is in
    ``meter``; every answer adds to it.
    """

    meter: Meter
    answers: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.answers = frozenset(name for name in QUESTIONS if getattr(cls, name) is not getattr(Oracle, name))

    def ask(self, question: str, *arguments: Any, **options: Any) -> Any:
        """The answer to a question, by its name, that the class does not define; a question's last two arguments are
        m and the stream. Raises NotImplementedError unless overridden."""
        raise self.unanswered(question)

    def unanswered(self, question: str) -> NotImplementedError:
        """The error for a question that this oracle does not answer."""
        return NotImplementedError(f"the {type(self).__name__} does not answer {question}; choose another oracle")

    def policy_gradient(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """(2): the mean of g(xi) = sum_h psi_h R^h; E = grad J(theta)."""
        g: Vector = self.ask("policy_gradient", theta, m, stream)
        return g

    def hessian_vector_product(
        self,
        theta: Vector,
        v: Vector,
        m: int,
        stream: Stream,
        *,
        credit: Credit = "all",
        baseline: Vector | None = None,
    ) -> Vector:
        """(3): the mean of u(xi) v = g (z . v) + sum_h R^h Psi_h v; with credit = "causal" that of u_c(xi) v, with a
        baseline b_t, shape (H+1,), or b_t and w, shape (H+1+f,) (docs/theory.md): E = hess J(theta) v. With credit =
        "none" that of sum_h R^h Psi_h v, the second half alone: the derivative of g along v on a batch that g was
        paid for, so it is not charged."""
        H_v: Vector = self.ask("hessian_vector_product", theta, v, m, stream, credit=credit, baseline=baseline)
        return H_v

    def score_sum(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch's sum of z(xi; theta) = sum_h psi_h, shape (d,). The stream names a batch that was already paid
        for, so no trajectory is charged."""
        z: Vector = self.ask("score_sum", theta, m, stream)
        return z

    def weighted_gradient(self, theta: Vector, snapshot: Vector, m: int, stream: Stream) -> Vector:
        """The mean of omega(xi) g(xi; snapshot), xi ~ q(theta), omega = q(xi; snapshot) / q(xi; theta), shape (d,); E =
        grad J(snapshot). Not charged, as in ``score_sum``."""
        g: Vector = self.ask("weighted_gradient", theta, snapshot, m, stream)
        return g

    def kl_gradient(self, theta: Vector, anchor: Vector, m: int, stream: Stream) -> Vector:
        """The mean of psi_h (log pi_theta - log pi_anchor)(a_h|s_h) over the batch's decisions, shape (d,); E = the
        gradient in theta of the mean of KL(pi_theta(.|s) || pi_anchor(.|s)) over the states that it visits, these held
        fixed. Not charged, as in ``score_sum``."""
        g: Vector = self.ask("kl_gradient", theta, anchor, m, stream)
        return g

    def mean_rewards(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """The batch mean of gamma^t r_t, t = 0..H, shape (H+1,); its sum is the mean return, with the entropy bonus if
        the estimator has one. Not charged, as in ``score_sum``."""
        rewards: Vector = self.ask("mean_rewards", theta, m, stream)
        return rewards

    def value_baseline(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """A baseline (b_t, w), shape (H+1+f,), for the reward-to-go: sum_{t>=h} b_t + gamma^h w . phi(s_h), fitted to a
        batch (``oracles/baseline.py``). Not charged, as in ``score_sum``."""
        b_w: Vector = self.ask("value_baseline", theta, m, stream)
        return b_w

    def transitions(self, theta: Vector, position: Vector, m: int, stream: Stream) -> Matrix:
        """m transitions of the agent's Markov chain under the policy theta, from where it stands: the rows (weight, x,
        r, x'), x = s A + a the number of a state and decision, the weights summing to 1, shape (m, 4). position: x as a
        vector (1,), or BEGIN. The last row's x' is where the chain stands then. Charged as m environment steps.

        Without noise every transition that there is, by how often it is made in the long run."""
        rows: Matrix = self.ask("transitions", theta, position, m, stream)
        return rows

    def action_values(self, theta: Vector, m: int, stream: Stream, *, omega: float = 0.0) -> Vector:
        """Q of the policy theta without a horizon, with omega times the entropy of every later decision in it, shape
        (S A,): Q = r + gamma P V, V(s) = sum_a pi(a|s) (Q(s, a) - omega log pi(a|s))."""
        Q: Vector = self.ask("action_values", theta, m, stream, omega=omega)
        return Q

    def direct_gradient(self, pi: Vector, m: int, stream: Stream) -> Vector:
        """The gradient of J without a horizon in the entries of the policy's own table (S A,): d(s) Q(s, a), d the
        discounted visits of s. pi is given as a theta whose logits are that table."""
        g: Vector = self.ask("direct_gradient", pi, m, stream)
        return g

    def backup(self, theta: Vector, m: int, stream: Stream) -> Vector:
        """r + gamma P max_a' Q(s', a'), shape (S A,): Bellman's optimality operator on the table Q = logits(theta)."""
        Q: Vector = self.ask("backup", theta, m, stream)
        return Q

    def returns(self, theta: Vector, m: int, stream: Stream) -> Outcome:
        """(1): return, success and final distance."""
        outcome: Outcome = self.ask("returns", theta, m, stream)
        return outcome


QUESTIONS = frozenset(name for name in vars(Oracle) if not name.startswith("_")) - {"answers", "ask", "unanswered"}


def check_credit(credit: str, baseline: Vector | None) -> None:
    """Raises ValueError for an unknown credit, and for a baseline with any but "causal", which it would bias."""
    if credit not in CREDITS or (baseline is not None and credit != "causal"):
        raise ValueError(f"credit = {credit!r}: give 'all' or 'none' without a baseline, or 'causal'")
