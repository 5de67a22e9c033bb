"""Streams: every batch has its own numbers, and a name always gives the same ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from raypfrl.streams import DRAWS, SERVER, Batches, LocalStep, Purpose, Stream

NUMBERS = (0, 1, 2, 255, 256, 257)
NAMES = [
    Stream(seed, agent, round_, step, purpose)
    for seed, agent, round_, step in itertools.product(NUMBERS, repeat=4)
    for purpose in Purpose
]
LARGEST = Stream(2**32 - 1, SERVER, 2**32 - 1, 2**24 - 1, Purpose.EVALUATE, 2**20 - 1)
PARTS = [Stream(1, 1, 1, 1, Purpose.INNER, part) for part in (1, 2, 256, 2**20 - 1)]


def test_streams_are_pairwise_distinct():
    """(seed, agent) = (0, 1) and (1, 0) included, and the pairs that collide where the numbers are added or hashed."""
    assert len({stream.words for stream in [*NAMES, *PARTS]}) == len(NAMES) + len(PARTS)
    few = [stream for stream in NAMES if {stream.seed, stream.agent, stream.round, stream.step} <= {0, 1, 256}] + PARTS
    drawn = [tuple(stream.generator().integers(2**63, size=2)) for stream in few]
    assert len(set(drawn)) == len(few)
    assert len(set(itertools.chain(*drawn))) == 2 * len(few), "two streams overlap"


def test_the_words_tell_the_name():
    """One to one: nothing is hashed, so nothing can collide."""
    for stream in [*NAMES[::97], *PARTS, LARGEST]:
        seed, agent, round_, last, draws = stream.words
        assert all(0 <= word < 2**32 for word in stream.words)
        assert draws % DRAWS == 0
        assert Stream(seed, agent, round_, last >> 8, Purpose(last & 255), draws // DRAWS) == stream


def test_the_numbers_of_a_name_never_change():
    """They are part of every result that was ever written; the second row had no part when it was."""
    for stream, numbers in {
        Stream(7, 3, 2, 5, Purpose.HESSIAN): [30851710, 316954582, 3065203254],
        Stream(0, SERVER, 0, 0, Purpose.INIT): [1504145694, 3388334444, 1656027826],
        Stream(7, 3, 2, 5, Purpose.HESSIAN, part=3): [1011089799, 893960684, 489316080],
    }.items():
        assert stream.generator().integers(2**32, size=3).tolist() == numbers


def test_equal_names_give_equal_numbers_anywhere():
    for stream in (Stream(3, 1, 4, 1, Purpose.OUTER), LARGEST):
        first = stream.generator().standard_normal(100)
        np.random.default_rng(0).random(7)  # what others draw does not matter
        assert stream.generator().standard_normal(100).tobytes() == first.tobytes()


def test_neighbouring_streams_are_uncorrelated():
    """Correlation of 20 000 pairs of normal numbers: its standard error is 1/sqrt(20 000) = 0.0071."""
    base = Stream(5, 5, 5, 5, Purpose.INNER)
    neighbours = [
        Stream(6, 5, 5, 5, Purpose.INNER),
        Stream(5, 6, 5, 5, Purpose.INNER),
        Stream(5, 5, 6, 5, Purpose.INNER),
        Stream(5, 5, 5, 6, Purpose.INNER),
        Stream(5, 5, 5, 5, Purpose.HESSIAN),
        Stream(5, 5, 5, 5, Purpose.INNER, part=1),
    ]
    x, *others = (stream.generator().standard_normal(20_000) for stream in (base, *neighbours))
    for y in others:
        assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(20_000)


def test_a_local_step_names_three_different_batches():
    first = LocalStep(seed=3, agent=1, round=4, step=2)
    assert first.numbered(0) == first
    for part in (0, 7):
        step: Batches = first.numbered(part)
        assert {step.inner.purpose, step.hessian.purpose, step.outer.purpose} == {
            Purpose.INNER, Purpose.HESSIAN, Purpose.OUTER,
        }  # fmt: skip
        for stream in (step.inner, step.hessian, step.outer):
            assert (stream.seed, stream.agent, stream.round, stream.step, stream.part) == (3, 1, 4, 2, part)


def test_the_numbers_of_the_purposes_never_change():
    """They are part of every result that was ever written."""
    first = ("INIT", "INNER", "HESSIAN", "OUTER", "COHORT", "ADAPT", "EVALUATE")
    assert [Purpose(number).name for number in range(7)] == list(first)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 2**32),
        ("agent", 2**32),
        ("round", 2**32),
        ("step", 2**24),
        ("step", -1),
        ("round", -5),
        ("part", -1),
        ("part", 2**20),
    ],
)
def test_what_does_not_fit_is_refused(name, value):
    """Silently wrapped, it would share its numbers with another stream."""
    fields = {"seed": 0, "agent": 0, "round": 0, "step": 0, name: value}
    with pytest.raises(ValueError, match=rf"stream {name} = {value} is outside"):
        Stream(**fields, purpose=Purpose.INNER)


def test_a_stream_prints_its_place_in_the_protocol():
    assert str(Stream(0, 3, 12, 2, Purpose.HESSIAN)) == "agent 3, round 12, local step 2, hessian batch"
    assert str(Stream(0, 3, 12, 2, Purpose.INNER, 3)) == "agent 3, round 12, local step 2, part 3, inner batch"
    assert str(Stream(0, 3, 12, 256, Purpose.ADAPT)) == "agent 3, round 12, evaluation, adapt batch"
