"""The tables "Where to add something", line by line: each thing is added from outside, as they say, and is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own import FILES, forgotten

from raypfrl import RunConfig, train
from raypfrl.cli import main
from raypfrl.sweeps import load
from raypfrl.uses import use

ROOT = Path(__file__).parent.parent
LINES = {
    file: re.findall(
        r"^\| ([^|]+?) +\|", (ROOT / file).read_text().partition("## Where to add")[2].partition("##")[0], re.M
    )
    for file in ("README.md", "CONTRIBUTING.md")
}
DONE = (  # by the tests below
    "method", "population (environment), sweep", "population (environment)", "sweep", "metric", "figure",
    "setting of a method, option of a population", "setting of the run", "curvature estimator",
)  # fmt: skip


@pytest.mark.parametrize("file", LINES)
def test_every_line_of_the_table_is_tried_here(file: str) -> None:
    head, *things = LINES[file]
    assert head == "new"
    assert len(things) >= 6
    assert set(things) <= set(DONE)


METHOD = '''
from raypfrl.methods import averaged

def signs(oracle, theta, step, *, m_in: int, size: float = 0.5):
    """The signs of the policy gradient."""
    g = oracle.policy_gradient(theta, m_in, step.inner)
    return size * (g > 0) - size * (g < 0)

METHODS = {"signs": averaged(signs)}
'''
POPULATION = '''
from raypfrl.policies import LinearSoftmax
from raypfrl.populations import BanditTask, Family, Population

def twins(*, gamma: float = 0.0, horizon: int = 0, gain: float = 2.0) -> Population:
    """Two bandits."""
    tasks = tuple(BanditTask(rewards) for rewards in ((0.0, 1.0, gain), (gain, 1.0, 0.0)))
    return Population("twins", tasks, (), LinearSoftmax((((0.0,), (1.0,), (3.0,)),)), gamma, horizon)

POPULATIONS = {"twins": Family(twins, {"rounds": 3, "tau": 1, "alpha": 0.1, "beta": 0.1})}
'''
SWEEP = """
from raypfrl.sweeps import Sweep

SWEEP = Sweep(base={"population": "twins", "m_in": 2}, grids=[{"method": "signs", "size": [0.1, 0.2], "gain": 3.0}])
"""


def test_a_method_a_population_their_settings_and_a_sweep_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file of the package is touched."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(METHOD + POPULATION + SWEEP)
    with forgotten():
        configs = load(file).trials([0])
        assert [(c.method, c.population, c.size, c.gain) for c in configs] == [
            ("signs", "twins", size, 3.0) for size in (0.1, 0.2)
        ]
        *_, last = train(configs[0])
        assert last["status"] == "finished"
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        for line in ("  signs ", "The signs of the policy gradient", "  twins ", "Two bandits", "in mine.py:"):
            assert line in out
    with forgotten():
        run = ["run", "twins", "signs", "--use", str(file), "--actors", "0", "--set", "size=0.25", "--set", "gain=1.5"]
        assert main([*run, "--set", "oracle=exact", "--set", "m_in=2", "--out", "out"]) == 0
        assert "0.25" in Path("out/trials.csv").read_text()
        batches = [word for name in ("m_in", "m_h", "m_out") for word in ("--set", f"{name}=2")]
        assert main(["theory", "twins", "--use", str(file), *batches]) == 0


def test_a_method_alone_in_a_file_runs_on_what_is_there(tmp_path: Path) -> None:
    with forgotten():
        (tmp_path / "mine.py").write_text(METHOD)
        use(tmp_path / "mine.py")
        assert train(RunConfig(population="quadratic", method="signs", rounds=1)).server.theta.shape == (1,)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and the figures with something of each kind added, as the table says."""
    folder = tmp_path_factory.mktemp("checkout")
    for package in ("raypfrl", "analysis", "tune_configs"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "results"))

    def add(file: str, before: str, new: str) -> None:
        text = (folder / file).read_text()
        assert text.count(before) >= 1, f"{file} has no {before!r}"
        (folder / file).write_text(text.replace(before, new + before, 1))

    inside = METHOD.replace("from raypfrl.methods import", "from raypfrl.methods.method import")
    (folder / "raypfrl/methods/signs.py").write_text(inside)
    add("raypfrl/methods/__init__.py", "variance_reduced,", "signs, ")
    add("raypfrl/methods/__init__.py", "per_fedavg_pg, independent", "signs, ")
    (folder / "raypfrl/populations/twins.py").write_text(
        POPULATION.replace(
            "populations import BanditTask, Family, Population",
            "populations.bandit import BanditTask\nfrom raypfrl.populations.population import Family, Population",
        )
    )
    add(
        "raypfrl/populations/__init__.py",
        "\nPOPULATIONS",
        "from raypfrl.populations.twins import POPULATIONS as _TWINS\n",
    )
    add("raypfrl/populations/__init__.py", "    **_GRIDWORLD,", "    **_TWINS,\n")
    add("raypfrl/methods/curvature.py", '    "causal": causal', '    "half": lambda *given: paper(*given) / 2,\n')
    add(
        "raypfrl/config.py",
        "    diagnostics: bool",
        '    patience: Whole = Field(0, ge=0, description="rounds to wait")\n',
    )
    add("raypfrl/metrics.py", '    "round": "k,', '    "rounds_left": "rounds to do",\n')
    add(
        "raypfrl/federation/train.py",
        '            "round": self',
        '            "rounds_left": self.config.rounds - self.server.round,\n',
    )
    (folder / "analysis/figures/fresh.py").write_text(
        'SWEEP = "mine"\n\n\ndef draw(frame):\n    """After."""\n    from matplotlib.figure import Figure\n\n'
        "    figure = Figure()\n    figure.add_subplot().plot(frame['round'], frame['return'])\n    return figure\n"
    )
    return folder


def python(folder: Path, *words: str) -> str:
    """What a command in the copy prints."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "WANDB_MODE": "disabled", "HOME": str(folder), "MPLBACKEND": "agg", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


KEYS = """
import json
from raypfrl import RunConfig
base = {"population": "bandit", "method": "exact"}
twins = {"population": "twins", "m_in": 1, "m_h": 1, "m_out": 1}
more = ({}, {"patience": 3}, {"curvature": "half"}, {"method": "signs"}, twins)
print(json.dumps([RunConfig(**{**base, **one}).key() for one in more]))
"""


def test_what_comes_with_the_package_and_settings_of_the_run(copy: Path) -> None:
    """A method, a population, an estimator; a new setting at its default renames no trial."""
    unchanged, *others = json.loads(python(copy, "-c", KEYS))
    assert unchanged == RunConfig(population="bandit", method="exact").key()
    assert len({unchanged, *others}) == 5


def test_a_metric_and_a_figure(copy: Path) -> None:
    run = ["run", "bandit", "signs", "--actors", "0", "--set", "rounds=2", "--set", "evaluate=1", "--set", "m_in=2"]
    python(copy, "-m", "raypfrl.cli", *run, "--set", "patience=2", "--set", "oracle=exact", "--out", "results/mine")
    lines = (copy / "results/mine/metrics.csv").read_text().splitlines()
    at = lines[0].split(",").index("rounds_left")
    assert [line.split(",")[at] for line in lines[1:]] == ["2", "1", "0"]
    assert "patience" in (copy / "results/mine/trials.csv").read_text()
    pytest.importorskip("matplotlib")
    python(copy, "-m", "analysis", "figures", "fresh", "--results", "results", "--out", "drawn", "--format", "png")
    assert (copy / "drawn/fresh.png").stat().st_size > 1000


def test_the_docs_study_is_in_two_files_and_a_faster_one() -> None:
    assert set(FILES) == {"physics.py", "my_study.py", "fast_walk.py"}
