"""A user's own files on Ray: they travel as text to every process, through kills and over nodes; what cannot work there
fails once."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from own import SET, forgotten, study
from ray.cluster_utils import Cluster
from scene import values
from strikes import order
from test_driver import command

from raypfrl import RunConfig, Training, train
from raypfrl.check.agents import outcome
from raypfrl.cli import settings_of
from raypfrl.federation.actors import AgentActor, OnActors
from raypfrl.sweeps import load
from raypfrl.sweeps.launch import launch
from raypfrl.sweeps.results import Results, pack
from raypfrl.uses import use

SMALL = settings_of(SET[1::2])


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No file is in use before or after a test."""
    with forgotten():
        yield


def remove(folder: Path) -> None:
    """No process can read the files from here on."""
    for file in folder.glob("*.py"):
        file.unlink()


def rows(results: Results) -> list[tuple[str, str]]:
    return [(row["status"], row["message"]) for row in results.trials.rows]


def undisturbed(configs: list[RunConfig], folder: Path) -> dict[str, Any]:
    """The same trials in this process."""
    results = Results(folder, "quiet")
    results.begin(configs, {})
    for config in configs:
        training = train(config)
        for metrics in training:
            results.record(config.key(), config, {**metrics, "checkpoint": pack(training.state())})
    return values(folder)


def same(found: dict[str, Any], quiet: dict[str, Any]) -> bool:
    """Whether all values agree; the code that computed them is not what is compared."""
    apart = ("commit", "source")
    trials = [[{k: v for k, v in row.items() if k not in apart} for row in one["trials"]] for one in (found, quiet)]
    return trials[0] == trials[1] and all(found[name] == quiet[name] for name in ("evaluations", "states"))


@pytest.mark.usefixtures("two_cpus")
def test_a_files_population_method_and_kernel_on_actors(tmp_path: Path) -> None:
    """State that agents keep, a kernel that is compiled there, and files that are gone: the bytes of one process."""
    study(tmp_path)
    use(tmp_path / "my_study.py")
    use(tmp_path / "fast_walk.py")
    remove(tmp_path)
    for population, oracle in (("fast_walk", "fused"), ("walk", "autodiff")):
        config = RunConfig(population=population, method="variates", **{**SMALL, "n": 3})
        assert config.oracle == oracle
        expected = outcome(Training(config))
        for number in (1, 2):
            actors = [AgentActor.options(num_cpus=0).remote() for _ in range(number)]
            assert outcome(Training(config, OnActors(config, actors))) == expected
            for actor in actors:
                ray.kill(actor)


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "theta_i = agent.ascend(",
            "theta_i = agent.descend(",
            "agent 0, round 0, phase 0: AttributeError: 'Agent' ob",
        ),
        (
            "STEP = 0.25",
            "import os\nSTEP = float(os.environ['ONLY_HERE'])",
            "does not run on .*: KeyError: 'ONLY_HERE'",
        ),
        pytest.param(
            '"c": np.zeros(population.policy.dim)',
            '"c": population.c',
            "the server's begin: AttributeError",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a method that raises", "a file that does not run there", "a server that cannot begin"],
)
def test_what_cannot_work_fails_once_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, says: str
) -> None:
    monkeypatch.setenv("ONLY_HERE", "0.25")
    sweep = load(study(tmp_path, old, new)).with_settings({**SMALL, "wind": 0.1})
    results = Results(tmp_path / "sweep", "my_study")
    assert launch(sweep.swept(), sweep.trials([0]), results) == 1
    found = dict(zip(("variates", "fedavg_pg"), rows(Results(tmp_path / "sweep", "my_study")), strict=True))
    status, message = found["variates"]
    assert status == "failed"
    assert re.search(says, message)
    assert (found["fedavg_pg"][0] == "failed") == ("STEP" in old), "another trial has come to harm"
    assert not (tmp_path / "sweep" / "log.txt").exists(), "it was tried again"


@pytest.mark.ray
@pytest.mark.timeout(1800)
def test_a_sweep_of_a_users_file_is_killed_and_resumed(orders: Path, tmp_path: Path) -> None:
    file, folder = study(tmp_path), tmp_path / "sweep"
    configs = load(file).with_settings({**SMALL, "wind": 0.3}).trials([0])
    quiet = undisturbed(configs, tmp_path / "quiet")
    order(orders, "before.2.kill")
    stopped = command(orders, "sweep", file, "--out", folder, "--seeds", 1, *SET, "--set", "wind=0.3")
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    without = command(orders, "resume", folder)
    assert without.returncode == 2
    assert without.stderr == f"raypfrl: begun with {configs[0].uses}: give --use my_study.py\n"
    resumed = command(orders, "resume", folder, "--use", file)
    assert resumed.returncode == 0, resumed.stderr
    assert same(values(folder), quiet)


def on_two_nodes(configs: list[RunConfig], orders: Path, folder: Path) -> dict[str, Any]:
    """What a sweep's folder holds whose trials had their agents on two nodes."""
    order(orders)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        assert launch(("population",), configs, Results(folder, "two"), strategy="SPREAD") == 0
    finally:
        ray.shutdown()
        cluster.shutdown()
    return values(folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_users_files_on_two_nodes(orders: Path, tmp_path: Path) -> None:
    """The agents of a trial on two nodes; the files are gone before anything begins."""
    study(tmp_path)
    use(tmp_path / "my_study.py")
    use(tmp_path / "fast_walk.py")
    remove(tmp_path)
    configs = [RunConfig(population=name, method="variates", actors=2, **SMALL) for name in ("walk", "fast_walk")]
    quiet = undisturbed(configs, tmp_path / "quiet")
    assert same(on_two_nodes(configs, orders, tmp_path / "sweep"), quiet)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_users_cartpole_on_two_nodes(orders: Path, tmp_path: Path) -> None:
    """A family of a gymnasium id in a file outside of the repository, which no node has."""
    example = Path(__file__).parents[2] / "examples" / "cartpole.py"
    file = tmp_path / "carts.py"
    file.write_text(example.read_text(encoding="utf-8").replace('"poles"', '"carts"'), encoding="utf-8")
    use(file)
    file.unlink()
    small = {name: value for name, value in SMALL.items() if name != "m_h"}
    config = RunConfig(population="carts", method="first_order", actors=2, horizon=20, **small)
    quiet = undisturbed([config], tmp_path / "quiet")
    assert same(on_two_nodes([config], orders, tmp_path / "sweep"), quiet)
