"""Files of the user's own: what they may hold, what is refused, and that they are part of what a trial is."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own import FILES, SET, forgotten, study

from raypfrl import AgentError, RunConfig, SettingsError, train, uses
from raypfrl.cli import main
from raypfrl.methods import METHODS
from raypfrl.populations import POPULATIONS
from raypfrl.sweeps import load, nodes
from raypfrl.sweeps.results import opened

HASH = "[0-9a-f]{12}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In another folder than the file's, in a process that forgets the files after each test."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with forgotten():
        yield


def small(**settings: object) -> RunConfig:
    base = {"population": "walk", "method": "variates", "rounds": 2, "tau": 2, "n": 2, "evaluate": 1, "m_eval": 4}
    return RunConfig(**{**base, "m_adapt": (0, 2), **settings})


# --- what a file offers -----------------------------------------------------------------------------------------------


def test_the_study_of_the_docs_runs(tmp_path: Path) -> None:
    """A dataclass under postponed annotations, a sibling, a population, a method with state, a sweep."""
    sweep = load(study(tmp_path))
    assert {(c.method, c.wind) for c in sweep.trials([0])} == {
        (method, wind) for method in ("variates", "fedavg_pg") for wind in (0.1, 0.3)
    }
    training = train(small())
    assert [row["status"] for row in training] == ["running", "running", "finished"]
    assert {name: len(training.server.kept[i][name]) for i in (0, 1) for name in training.server.kept[i]} == {"c_i": 18}
    mean = sum(training.server.kept[i]["c_i"] for i in (0, 1)) / 2
    assert mean == pytest.approx(training.server.arrays["c"], abs=1e-15), "SCAFFOLD's c is the mean of the c_i"


def test_an_option_is_a_builders_keyword_argument_with_its_bounds_and_meaning(tmp_path: Path) -> None:
    load(study(tmp_path))
    assert {task.wind for task in small(wind=0.3).build_population().tasks} == {0.3}
    assert small(wind="2e-1").wind == 0.2
    assert small(wind=0.1).key() == small().key() != small(wind=0.3).key()
    with pytest.raises(SettingsError, match=r"wind = 2: .*less than or equal to 1 \(how far a walker is blown"):
        small(wind=2)
    with pytest.raises(SettingsError, match="wind is a setting of walk, and the population is bandit"):
        RunConfig(population="bandit", method="exact", wind=0.1)
    with pytest.raises(SettingsError, match="step is a setting of variates, and the method is exact"):
        small(method="exact", step=0.5)


def test_what_is_a_trials_own_is_part_of_its_key(tmp_path: Path) -> None:
    """The text of the file and of what it imports, and only for trials that use something of it."""
    key = RunConfig(population="bandit", method="exact").key()
    keys = []
    for old, new in (("", ""), ("blown to the left in", "blown left in"), ("STEP = 0.25", "STEP = 0.250")):
        with forgotten():
            load(study(tmp_path, old, new))
            keys.append((small().key(), small(method="exact").key()))
            assert re.fullmatch(f"my_study.py:{HASH}", small().uses)
            assert small().identity()["uses"] == small().uses
            assert RunConfig(population="bandit", method="exact").key() == key
    assert len(set(keys)) == 3
    with forgotten():
        moved = tmp_path / "moved"
        moved.mkdir()
        load(study(moved))
        assert (small().key(), small(method="exact").key()) == keys[0], "where a file lies is no part of it"


def test_siblings_of_siblings_and_packages(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "__init__.py").write_text("from world.wind import LEFT\n")
    (tmp_path / "world" / "wind.py").write_text("from . import other\nLEFT = other.LEFT\n")
    (tmp_path / "world" / "other.py").write_text("LEFT = 0.25\n")
    (tmp_path / "constants.py").write_text("def step():\n    import world\n\n    return world.LEFT\n")
    file = study(tmp_path)
    (tmp_path / "physics.py").write_text("import constants\n\nSTEP = constants.step()\n")
    with forgotten():
        load(file)
        (one,) = uses.needed("walk", "variates")
        names = ["constants", "physics", "world", "world.other", "world.wind"]
        assert [text.module for text in one.texts] == [
            *sorted(names, key=[t.module for t in one.texts].index),
            one.module,
        ]
        assert sorted(text.module for text in one.texts[:-1]) == names
    (tmp_path / "world" / "other.py").write_text("LEFT = 0.5\n")
    with forgotten():
        load(file)
        assert uses.needed("walk", "variates") != (one,), "a change three imports deep is a change"


def test_a_file_twice_is_once(tmp_path: Path) -> None:
    file = study(tmp_path)
    assert uses.use(file) is uses.use(file) is uses.use(Path("..") / "my_study.py")


@pytest.mark.parametrize("files", [("my_study.py", "fast_walk.py"), ("fast_walk.py", "my_study.py")])
def test_a_file_that_is_in_use_and_imported_by_another_runs_once(tmp_path: Path, files: tuple[str, str]) -> None:
    """Else it would register its environment twice, and there would be two of each of its classes."""
    study(tmp_path)
    modules = {file: uses.use(tmp_path / file) for file in files}
    assert modules["fast_walk.py"].Walk is modules["my_study.py"].Walk
    assert [str(one).partition(":")[0] for one in uses.needed("fast_walk", "variates")] == [
        "fast_walk.py",
        "my_study.py",
    ]
    assert uses.offers(modules["my_study.py"], "METHODS") == ["variates"]


def test_a_list_is_one_value_for_an_option_that_is_a_tuple(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = study(tmp_path, "wind: Wind = 0.1)", "wind: tuple[float, ...] = (0.1,))")
    file.write_text(
        file.read_text().replace("wind) for goal", "wind[0]) for goal").replace("Walk(0.1, wind)", "Walk(0.1, 0.1)")
    )
    run = ["run", "walk", "exact", "--use", str(file), *SET, "--set", "rounds=1", "--actors", "0"]
    assert main([*run, "--set", "wind=[0.1,0.2]"]) == 0
    assert small(wind=[0.1, 0.2]).wind == (0.1, 0.2)
    assert main([*run, "--set", "wind=[a]"]) == 2
    assert "wind = " in capsys.readouterr().err


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("SWEEP = Sweep(", "SWEEP = Sweeep(", "does not run: NameError: name 'Sweeep'"),
        ("def combine(", "def combine(:", "does not run: SyntaxError"),
        ("from physics import STEP", "from physics import STEPS", "does not run: ImportError: cannot import name"),
        ("from physics import STEP", "import sys; sys.exit('no')", "does not run: SystemExit: no"),
        ('{"walk": Family', '{"bandit": Family', f"bandit of my_study.py:{HASH}: raypfrl has one"),
        ('{"variates": Method', '{"exact": Method', f"exact of my_study.py:{HASH}: raypfrl has one"),
        ("Method((VARIATES,), begin, join, source=", "dict(a=", "variates of .*: no Method; give Method"),
        ("Family(walk, SUGGESTED)", "walk", "walk of .*: no Family; give Family"),
        ("def walk(*, n", "def walk(n", r"walk of .*: options are keyword-only arguments; put a \* before n"),
        ("step: Step = 1.0", "step: Stepp = 1.0", "does not run: NameError: name 'Stepp'"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    methods, populations = set(METHODS), set(POPULATIONS)
    for arguments in (["sweep"], ["list", "--use"], ["run", "walk", "exact", "--use"]):
        with forgotten():
            assert main([*arguments, str(study(tmp_path, old, new))]) == 2
            captured = capsys.readouterr()
            assert re.search(says, captured.err), captured.err
            assert captured.err.count("\n") == 1
            assert (set(METHODS), set(POPULATIONS)) == (methods, populations), "half of it was offered"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("wind: Wind = 0.1)", "wind=[0.1])", r"wind = \[0.1\]: .* annotate it as a tuple"),
        ("wind: Wind = 0.1)", "seed: int = 1, wind: Wind = 0.1)", "seed: the run has a setting of that name"),
        ("step: Step = 1.0", "wind: Step = 1.0", "wind: the population and the method mean different things by it"),
        ("wind: Wind = 0.1)", "wind: Wind)", "no wind: walk suggests none; give it by --set wind=..."),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    uses.use(study(tmp_path, old, new))
    with pytest.raises(SettingsError, match=says):
        small()


def test_a_taken_name_is_refused_with_both_sources(tmp_path: Path) -> None:
    uses.use(study(tmp_path))
    other = tmp_path / "other.py"
    other.write_text(FILES["my_study.py"].replace("my/Walk", "my/Other"))
    with pytest.raises(SettingsError, match=rf"variates of other.py:{HASH}: my_study.py:{HASH} has one of that name"):
        uses.use(other)


def test_two_siblings_of_one_name_are_refused(tmp_path: Path) -> None:
    uses.use(study(tmp_path))
    for folder, text in (("same", FILES["physics.py"]), ("other", "STEP = 0.3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "physics.py").write_text(text)
        (tmp_path / folder / "more.py").write_text("import physics\nMETHODS = {}\n")
    with pytest.raises(SettingsError, match=r"other/physics.py: another module physics is loaded already; rename"):
        uses.use(tmp_path / "other" / "more.py")


def test_a_script_that_has_imported_its_sibling_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``python my_study.py``, where the folder is on the path."""
    file = study(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import physics  # type: ignore[import-not-found]

    assert uses.use(file).STEP == physics.STEP


# --- in another process -----------------------------------------------------------------------------------------------


def test_settings_bring_their_files_to_another_process(tmp_path: Path) -> None:
    """And the classes of their values, which stand in these files."""
    breeze = "\n\n@dataclass(frozen=True)\nclass Breeze:\n    speed: float\n\n\n@dataclass(frozen=True)\nclass Walk:"
    file = study(tmp_path, "\n\n@dataclass(frozen=True)\nclass Walk:", breeze)
    text = (
        file.read_text().replace("wind: Wind = 0.1", "wind: Breeze = Breeze(0.1)").replace(", wind)", ", wind.speed)")
    )
    file.write_text(text)
    with forgotten():
        uses.use(file)
        config = small(wind={"speed": 0.2})
        sent, key = pickle.dumps(config), config.key()
        assert config.wind.speed == 0.2
    file.unlink()
    (tmp_path / "physics.py").unlink()
    with forgotten():
        arrived = pickle.loads(sent)
        assert arrived.key() == key
        assert arrived.wind.speed == 0.2
        assert {task.wind for task in arrived.build_population().tasks} == {0.2}
        assert [*train(arrived)][-1]["status"] == "finished"


def test_a_file_that_does_not_run_there_is_told_by_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that raise as they arrive would end the process that they arrive in."""
    monkeypatch.setenv("ONLY_HERE", "0.25")
    with forgotten():
        uses.use(study(tmp_path, "STEP = 0.25", "import os\nSTEP = float(os.environ['ONLY_HERE'])"))
        sent = pickle.dumps(small())
    monkeypatch.delenv("ONLY_HERE")
    with forgotten():
        arrived = pickle.loads(sent)
        for ask in (arrived.build_population, arrived.build_method, lambda: train(arrived)):
            with pytest.raises(AgentError, match=rf"my_study.py:{HASH} does not run on .*: KeyError: 'ONLY_HERE'"):
                ask()


# --- resume -----------------------------------------------------------------------------------------------------------


def test_resume_says_which_file_it_needs_and_takes_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = study(tmp_path)
    with forgotten():
        assert main(["run", "walk", "variates", "--use", str(file), *SET, "--actors", "0", "--out", "out"]) == 0
        hashed = opened(Path("out")).trials.rows[0]["uses"]
    assert [p.name for p in Path("out").rglob("*.py")] == []
    Path("out/trials.csv").unlink()
    with forgotten():
        assert main(["resume", "out"]) == 2
        assert capsys.readouterr().err == f"raypfrl: begun with {hashed}: give --use my_study.py\n"
    changed = study(tmp_path, "STEP = 0.25", "STEP = 0.26")
    with forgotten():
        assert main(["resume", "out", "--use", str(changed)]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(rf"raypfrl: begun with {hashed}, and this is my_study.py:{HASH}; give that file\n", said)
        assert said.count(hashed) == 1
    other = tmp_path / "other.py"
    other.write_text(FILES["my_study.py"].replace('"walk": ', '"stroll": '))
    with forgotten():
        assert main(["resume", "out", "--use", str(other)]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(
            rf"raypfrl: begun with {hashed}: give --use my_study.py; other.py:{HASH} is another\n", said
        )
    with forgotten():
        assert main(["resume", "out", "--use", str(study(tmp_path))]) == 0


# --- installed packages -----------------------------------------------------------------------------------------------


def package(folder: Path, text: str, version: str) -> None:
    """What an installed package looks like on the path: a module, and the metadata that name it."""
    about = folder / f"walkers-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: walkers\nVersion: {version}\n")
    (about / "entry_points.txt").write_text("[raypfrl]\nanything = my_walkers\n")
    (folder / "my_walkers.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_walkers", None)


def test_a_package_offers_by_its_entry_point(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package(site, FILES["my_study.py"].replace("from physics import", "from my_physics import"), "1.2")
    (site / "my_physics.py").write_text(FILES["physics.py"])
    assert main(["list"]) == 0
    assert "\n  walk " in capsys.readouterr().out
    assert small().uses == small().identity()["uses"] == "walkers==1.2"
    assert uses.needed("walk", "variates") == (), "an installed package does not travel"
    assert train(small()).server.theta.shape == (18,)
    assert nodes.packages()["walkers"] == "1.2"
    sent = pickle.dumps(small())
    with forgotten():
        assert pickle.loads(sent).build_population().name == "walk"
    with pytest.raises(SettingsError, match=r"begun with walkers==1.1, and this is walkers==1.2"):
        small(uses="walkers==1.1")
    with pytest.raises(SettingsError, match=r"begun with hikers==3: install hikers==3"):
        small(population="hike", uses="hikers==3")


def test_a_node_without_the_package_or_with_another_version_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(site, "METHODS = {}\n", "1.2")
    here = nodes.packages()
    alive = [{"NodeID": name, "NodeManagerAddress": name, "Resources": {}} for name in "ab"]
    monkeypatch.setattr(nodes, "_alive", lambda: alive)
    without = {name: version for name, version in here.items() if name != "walkers"}
    for there, says in ((without, "walkers nowhere"), ({**here, "walkers": "1.1"}, "walkers 1.1")):
        answers = {"a": {"versions": here, "sees": True}, "b": {"versions": there, "sees": True}}
        monkeypatch.setattr(nodes, "_ask", lambda *_, answers=answers: answers)
        with pytest.raises(SettingsError, match=rf"node b has {says} \(here 1.2\); install the same versions"):
            nodes.check(tmp_path / "sweep", own_disk=False)


def test_a_package_that_cannot_be_imported_is_named(site: Path) -> None:
    package(site, "import nothing_of_that_name\n", "1.2")
    RunConfig(population="bandit", method="exact")
    with pytest.raises(SettingsError, match=r"walkers==1.2: my_walkers cannot be imported: ModuleNotFoundError"):
        small()
