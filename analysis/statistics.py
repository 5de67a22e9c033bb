"""Statistics over seeds. Seeds are the unit of replication, always.

Scores are a pandas Series of one number a seed whose index is named ``seed`` (``frames.scores`` makes one), so the
axis is named and not guessed: rounds, agents or episodes in its place raise a ValueError. A table of scores has one
row a seed (index named ``seed``) and one column a stratum. No interval here assumes that scores are unimodal except
``mean_interval`` and ``mean_of_new``, which are the t intervals they say they are.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate and its interval; ``level`` is the coverage attained, which small samples may hold below 0.95."""

    estimate: float
    low: float
    high: float
    level: float = LEVEL


class Share(NamedTuple):
    """``k`` of ``n`` seeds, with the Wilson interval of the probability."""

    k: int
    n: int
    low: float
    high: float


class Dip(NamedTuple):
    """Hartigan's dip and its p-value under unimodality."""

    dip: float
    p: float


class Mixture(NamedTuple):
    """``components`` of the lowest BIC; the BIC of 1, 2 and 3; weights and means of the chosen, by mean."""

    components: int
    bic: tuple[float, float, float]
    weights: tuple[float, ...]
    means: tuple[float, ...]


class Paired(NamedTuple):
    """a - b seed by seed: the median difference and its interval; in how many seeds a > b; the two-sided p of
    Wilcoxon's signed-rank test (differences independent, and symmetric about their median); and the matched-pairs
    rank-biserial correlation, (R+ - R-) / (R+ + R-) of the ranks' sums of positive and negative differences."""

    difference: Interval
    wins: Share
    p: float
    effect: float


def _values(scores: pd.Series, least: int = 1) -> NDArray[np.float64]:
    """The scores as an array (seeds,). Raises ValueError for anything but finite numbers, one a seed."""
    if not isinstance(scores, pd.Series):
        raise ValueError(f"scores must be a pandas Series with one value a seed, not a {type(scores).__name__}")
    if scores.index.name != "seed":
        raise ValueError(
            f"scores run along {scores.index.name!r}; seeds are the unit of replication: index them by seed"
        )
    if not scores.index.is_unique:
        raise ValueError("scores hold a seed more than once; average within the seed first")
    if len(scores) < least:
        raise ValueError(f"{len(scores)} seeds; this needs {least} or more")
    values: NDArray[np.float64] = scores.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"the score of seed {scores.index[~np.isfinite(values)][0]} is not finite")
    return values


def quantile_interval(scores: pd.Series, q: float = 0.5, level: float = LEVEL) -> Interval:
    """The q-quantile and its exact distribution-free interval between two order statistics.

    The number of seeds below the true quantile is Binomial(n, q); each tail is at most (1 - level) / 2, so for
    continuous scores the coverage is ``level`` or more, whatever their distribution. Where n is too small for that
    (n < 6 for a median) the interval is the range of the seeds and its ``level`` says what it covers.
    """
    x = np.sort(_values(scores))
    low, high, covered = _ranks(len(x), q, level)
    return Interval(float(np.quantile(x, q)), float(x[low - 1]), float(x[high - 1]), covered)


@cache
def _ranks(n: int, q: float, level: float) -> tuple[int, int, float]:
    """Which of n order statistics, from 1, bound the q-quantile, and how often."""
    below, tail = stats.binom(n, q), (1 - level) / 2
    low = max(int(below.ppf(tail)), 1)
    while low > 1 and below.cdf(low - 1) > tail:
        low -= 1
    high = min(int(below.isf(tail)) + 1, n)
    return low, high, float(below.cdf(high - 1) - below.cdf(low - 1))


def mean_interval(scores: pd.Series, level: float = LEVEL) -> Interval:
    """The mean and its t interval. For scores that are not bimodal; show the seeds beside it."""
    x = _values(scores, least=2)
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1) * stats.sem(x))
    return Interval(float(x.mean()), float(x.mean()) - half, float(x.mean()) + half, level)


def mean_of_new(scores: pd.Series, m: int = 10, level: float = LEVEL, common: float = 0.0) -> Interval:
    """Where the mean of m new seeds of the same distribution will fall: mean -+ t sqrt(s^2 (1/n + 1/m) + common).

    common: a variance that all new seeds share, such as that of an evaluation with the same random numbers for each.
    """
    x = _values(scores, least=2)
    deviation = np.sqrt(x.var(ddof=1) * (1 / len(x) + 1 / m) + common)
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1) * deviation)
    return Interval(float(x.mean()), float(x.mean()) - half, float(x.mean()) + half, level)


def median_of_new(scores: pd.Series, m: int = 10, level: float = LEVEL) -> Interval:
    """Where the median of m new seeds of the same distribution will fall, between two of our order statistics.

    Distribution-free: the number of our n scores below the j-th smallest of m new ones is negative hypergeometric.
    For even m the two middle new scores bracket the median, which makes the interval conservative. Where n is small
    it is our range, and ``level`` says what that covers.
    """
    x = np.sort(_values(scores))
    low, high, covered = _ranks_of_new(len(x), m, level)
    return Interval(float(np.median(x)), float(x[low]), float(x[high]), covered)


@cache
def _ranks_of_new(n: int, m: int, level: float) -> tuple[int, int, float]:
    """Which of n order statistics, from 0, bound the median of m new seeds, and how often."""
    ranks = np.arange(n)
    below = stats.nhypergeom.cdf(ranks, n + m, n, (m + 1) // 2)  # P(lower middle new score < x[rank])
    above = stats.nhypergeom.sf(ranks, n + m, n, m // 2 + 1)  # P(upper middle new score > x[rank])
    tail = (1 - level) / 2
    low = int(ranks[below <= tail].max(initial=0))
    high = int(ranks[above <= tail].min(initial=n - 1))
    return low, high, float(1 - below[low] - above[high])


def iqm_interval(scores: pd.Series | pd.DataFrame, level: float = LEVEL, resamples: int = 2000) -> Interval:
    """The interquartile mean and its stratified bootstrap interval (percentile).

    scores: a Series of seeds, or a table (seeds, strata) whose columns are different runs: seeds are resampled within
    each column and the IQM is that of all values. The resampling is seeded, so equal scores give equal intervals.
    With ten seeds a percentile interval covers less than it says: prefer the median's exact interval there.
    """
    table = scores.to_frame() if isinstance(scores, pd.Series) else scores
    columns = [_values(table[c], least=2) for c in table]

    def iqm(*x: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
        return np.asarray(stats.trim_mean(np.concatenate(x, axis=axis), 0.25, axis=axis))

    estimate = float(iqm(*columns))
    if all(np.ptp(x) == 0 for x in columns):
        return Interval(estimate, estimate, estimate, level)
    drawn = stats.bootstrap(
        columns, iqm, n_resamples=resamples, vectorized=True, confidence_level=level, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return Interval(estimate, float(drawn.low), float(drawn.high), level)


def share(scores: pd.Series, *, at_least: float | None = None, at_most: float | None = None) -> Share:
    """How many seeds are >= at_least, or <= at_most (give one), with the Wilson interval of the probability."""
    if (at_least is None) == (at_most is None):
        raise ValueError("give one of at_least and at_most")
    x = _values(scores)
    inside = x >= at_least if at_least is not None else x <= at_most  # type: ignore[operator]
    return wilson(int(inside.sum()), len(x))


def wilson(k: int, n: int, level: float = LEVEL) -> Share:
    """k of n with the Wilson interval."""
    interval = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    return Share(k, n, float(interval.low), float(interval.high))


def dip_test(scores: pd.Series) -> Dip:
    """Hartigan's dip test of unimodality. With ten seeds it has little power: a large p says nothing there."""
    import diptest

    dip, p = diptest.diptest(_values(scores, least=4))
    return Dip(float(dip), float(p))


def mixture(scores: pd.Series) -> Mixture:
    """One, two or three normal components, by BIC (EM, ten seeded starts).

    Scores are standardised and a component's standard deviation is held at 1 % of theirs or more: without a floor a
    component that shrinks onto one seed has unbounded likelihood.
    """
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    x = _values(scores, least=6)
    scale = float(x.std())
    if scale == 0:
        raise ValueError("all seeds have the same score; there is nothing to divide into components")
    z = ((x - x.mean()) / scale)[:, None]
    with threadpool_limits(1):  # a hundred numbers: threads only wait for each other
        fits = [GaussianMixture(k, n_init=10, reg_covar=1e-4, random_state=0, max_iter=500).fit(z) for k in (1, 2, 3)]
    bic = tuple(float(fit.bic(z)) for fit in fits)
    best = fits[int(np.argmin(bic))]
    order = np.argsort(best.means_[:, 0])
    means = best.means_[order, 0] * scale + x.mean()
    return Mixture(len(order), bic, tuple(map(float, best.weights_[order])), tuple(map(float, means)))  # type: ignore[arg-type]


def paired(a: pd.Series, b: pd.Series) -> Paired:
    """a against b, seed by seed. Raises ValueError where they do not hold the same seeds."""
    _values(a), _values(b)
    if set(a.index) != set(b.index):
        odd = sorted(set(a.index) ^ set(b.index))
        raise ValueError(f"a paired comparison needs the same seeds on both sides; only one side has {odd[:5]}")
    difference = a - b.reindex(a.index)
    x = _values(difference)
    p, effect = _signed_ranks(x[x != 0])
    return Paired(quantile_interval(difference), wilson(int((x > 0).sum()), len(x)), p, effect)


def _signed_ranks(x: NDArray[np.float64]) -> tuple[float, float]:
    """Wilcoxon's two-sided p, exact up to 50 seeds, and the rank-biserial correlation. Zeros are left out."""
    if not len(x):
        return 1.0, 0.0
    ties = len(np.unique(np.abs(x))) < len(x)
    drawn = stats.PermutationMethod(n_resamples=2**13, rng=np.random.default_rng(0))  # all of them up to 13 seeds
    method = "approx" if len(x) > 50 else drawn if ties else "exact"
    ranks = stats.rankdata(np.abs(x))
    return float(stats.wilcoxon(x, method=method).pvalue), float((np.sign(x) * ranks).sum() / ranks.sum())


def holm(p: pd.Series) -> pd.Series:
    """The p-values of one family of tests after Holm's step-down correction; NaN stays NaN and counts as no test.

    The i-th smallest of m becomes the largest (m - j + 1) p_(j) over j <= i, and 1 at most (Holm 1979). SciPy has no
    family-wise correction, and statsmodels' takes longer to import than all else here.
    """
    tested = p.dropna().astype(float).sort_values()
    steps = tested.to_numpy() * np.arange(len(tested), 0, -1)
    corrected = pd.Series(np.minimum(np.maximum.accumulate(steps), 1.0), index=tested.index)
    return corrected.reindex(p.index)
