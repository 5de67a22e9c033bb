"""Linear-quadratic control: systems x+ = A_i x + B_i u under one linear feedback u = -K x, for an infinite time and
without discount. J_i(K) = -E sum_t (x' Q_i x + u' R_i u) with x_0 ~ N(0, I), and -inf where K leaves system i unstable.

For a stable closed loop C = A - B K (Fazel et al. 2018; Toso et al. 2024 for MAML-LQR):

    P = Q + K' R K + C' P C          J = -tr P
    S = I + C S C'                   grad J = -2 E S,  E = (R + B' P B) K - B' P A

It violates the paper's Assumptions 1 and 2 (costs without bound, a deterministic policy): its bounds say nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from raypfrl.policies import LinearFeedback, Vector
from raypfrl.populations.population import ClosedForm, Family, Population, Returns
from raypfrl.settings import Agents, Horizon, Real
from raypfrl.streams import Purpose, Stream

Matrix = NDArray[np.float64]

# The system that all are near: open loop it is not stable, and its two controls cost less than its states.
A = ((1.1, 0.2, 0.0), (0.0, 0.9, 0.3), (0.1, 0.0, 1.05))
B = ((1.0, 0.0), (0.0, 0.3), (0.2, 1.0))
Q = ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 1.0))
R = ((0.5, 0.0), (0.0, 0.5))
TIMID = 8.0  # theta^0 is the optimum of that system where controls cost so many times as much
HELD_OUT = 2

Spread = Annotated[Real, Field(ge=0, le=1, description="how far the systems differ: entries of A, B; Q and R by ratio")]
Radius = Annotated[
    Real, Field(gt=0, description="how far from K the costs of rollouts are compared, in Frobenius norm")
]
Points = Annotated[Literal[1, 2], Field(description="a gradient from the costs at K + U, or at K + U and K - U")]

SUGGESTED: Mapping[str, Any] = {
    "oracle": "exact", "rounds": 60, "tau": 1, "alpha": 0.01, "beta": 0.03,
    "beta_own": 0.01, "delta": 1e-3,  # larger, they leave the systems that theta holds stable
    "m_in": 200, "m_h": 200, "m_out": 200, "m_adapt": (0, "exact"),
}  # fmt: skip


@dataclass(frozen=True)
class LqrTask:
    """One system: A (s, s), B (s, c), Q (s, s) and R (c, c), positive definite, row by row; and how returns tell its
    gradient where formulas may not."""

    A: tuple[tuple[float, ...], ...]
    B: tuple[tuple[float, ...], ...]
    Q: tuple[tuple[float, ...], ...]
    R: tuple[tuple[float, ...], ...]
    smoothing: float = 0.05
    points: Literal[1, 2] = 2

    @property
    def chances(self) -> int:
        """What chance decides in a rollout: x_0."""
        return len(self.A)

    def closed_form(self) -> ClosedForm:
        """J, -2 E S and its derivative along V, by Lyapunov equations."""
        return ClosedForm(self._objective, self._gradient, self._hessian_vector_product)

    def rollouts(self, thetas: Matrix, chances: Matrix, horizon: int) -> Returns:
        """The returns of horizon + 1 decisions from x_0 = chances (m, s), each under its own K (m, d); a rollout has
        settled where its state has come nearer to 0."""
        A_, B_, Q_, R_ = self._matrices()
        K, x = thetas.reshape(len(thetas), B_.shape[1], len(A_)), chances
        cost = np.zeros(len(thetas))
        for _ in range(horizon + 1):
            u = -np.einsum("mcs,ms->mc", K, x)
            cost += np.einsum("ms,st,mt->m", x, Q_, x) + np.einsum("mc,cd,md->m", u, R_, u)
            x = np.einsum("st,mt->ms", A_, x) + np.einsum("sc,mc->ms", B_, u)
        return Returns(-cost, (x * x).sum(axis=1) < (chances * chances).sum(axis=1))

    def optimum(self) -> Vector:
        """K* by the discrete algebraic Riccati equation, shape (d,)."""
        return riccati(*self._matrices()).ravel()

    def _matrices(self) -> tuple[Matrix, ...]:
        return tuple(np.array(each) for each in (self.A, self.B, self.Q, self.R))

    def _objective(self, theta: Vector) -> float:
        loop = self._loop(theta)
        return float("-inf") if loop is None else -float(np.trace(loop.P))

    def _gradient(self, theta: Vector) -> Vector:
        loop = self._loop(theta)
        return np.full(theta.size, np.nan) if loop is None else -2 * (loop.E @ loop.S).ravel()

    def _hessian_vector_product(self, theta: Vector, v: Vector) -> Vector:
        """-2 (E_dot S + E S_dot): the tangent along V of every quantity of the gradient."""
        if (loop := self._loop(theta)) is None:
            return np.full(theta.size, np.nan)
        from scipy.linalg import solve_discrete_lyapunov as lyapunov

        _, B_, _, R_ = self._matrices()
        _, C, P, S, E = loop
        V = v.reshape(E.shape)
        P_dot = lyapunov(C.T, V.T @ E + E.T @ V)
        E_dot = (R_ + B_.T @ P @ B_) @ V - B_.T @ P_dot @ C
        moved = B_ @ V @ S @ C.T
        S_dot = lyapunov(C, -moved - moved.T)
        return np.asarray(-2 * (E_dot @ S + E @ S_dot).ravel())

    def _loop(self, theta: Vector) -> ClosedLoop | None:
        return closed_loop(self, theta.tobytes())


class ClosedLoop(NamedTuple):
    """K, C = A - B K, and the P, S and E that belong to it."""

    K: Matrix
    C: Matrix
    P: Matrix
    S: Matrix
    E: Matrix


@lru_cache(maxsize=64)
def closed_loop(task: LqrTask, theta: bytes) -> ClosedLoop | None:
    """What J and its derivatives at K are made of; None where the spectral radius of C is 1 or more."""
    from scipy.linalg import solve_discrete_lyapunov as lyapunov

    A_, B_, Q_, R_ = task._matrices()
    K = np.frombuffer(theta).reshape(B_.shape[::-1])
    C = A_ - B_ @ K
    if not np.isfinite(C).all() or np.abs(np.linalg.eigvals(C)).max() >= 1:
        return None
    P = lyapunov(C.T, Q_ + K.T @ R_ @ K)
    S = lyapunov(C, np.eye(len(A_)))
    return ClosedLoop(K, C, P, S, (R_ + B_.T @ P @ B_) @ K - B_.T @ P @ A_)


def riccati(A: Matrix, B: Matrix, Q: Matrix, R: Matrix) -> Matrix:
    """The optimal feedback K* = (R + B' P B)^{-1} B' P A, shape (c, s)."""
    from scipy.linalg import solve_discrete_are

    P = solve_discrete_are(A, B, Q, R)
    return np.asarray(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))


def lqr(
    *, n: Agents = 4, horizon: Horizon = 40, spread: Spread = 0.1, smoothing: Radius = 0.05, points: Points = 2
) -> Population:
    """n systems near one that is not stable by itself, and two held out; one linear feedback for all.

    Raises ValueError where SciPy is not installed.
    """
    try:
        import scipy.linalg  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("lqr needs SciPy: pip install 'raypfrl[analysis]'") from None
    tasks = tuple(system(number, spread, smoothing, points) for number in range(n + HELD_OUT))
    start = riccati(np.array(A), np.array(B), np.array(Q), TIMID * np.array(R)).ravel()
    policy = LinearFeedback(len(A), len(R), tuple(start.tolist()))
    return Population("lqr", tasks[:n], tasks[n:], policy, gamma=1.0, horizon=horizon)


def system(number: int, spread: float, smoothing: float, points: Literal[1, 2]) -> LqrTask:
    """System ``number``: entries of A and B moved by up to ``spread``, those on the diagonals of Q and R multiplied by
    e to the power of up to 5 spread."""
    rng = Stream(0, number, 0, 1, Purpose.INIT).generator()

    def moved(matrix: Any) -> Any:
        return np.array(matrix) + spread * rng.uniform(-1, 1, np.shape(matrix))

    def scaled(matrix: Any) -> Any:
        return np.diag(np.diag(matrix) * np.exp(5 * spread * rng.uniform(-1, 1, len(matrix))))

    A_, B_, Q_, R_ = (tuple(map(tuple, each.tolist())) for each in (moved(A), moved(B), scaled(Q), scaled(R)))
    return LqrTask(A_, B_, Q_, R_, smoothing, points)


POPULATIONS: Mapping[str, Family] = {"lqr": Family(lqr, SUGGESTED)}
