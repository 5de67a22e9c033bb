"""The wheel: what is in it, and that it works alone, from an empty folder in an environment of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLACES = ("raypfrl", "analysis", "tune_configs")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in TUTORIAL.splitlines() if line.startswith("    raypfrl ")]
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
SMALL = {
    "run": ["--set", "rounds=1", "--actors", "0", "--set", "oracle=exact"],
    "sweep": ["--set", "rounds=2", "--set", "evaluate=1", "--set", "tau=1"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is written here, with the setuptools that is installed."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(
        ["git", "ls-files", *PLACES, "pyproject.toml", "README.md", "LICENSE"], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("not a checkout of git")
    for name in tracked.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(out)], cwd=source, check=True, capture_output=True, text=True)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_has_everything_that_is_read_and_is_small(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for place in PLACES:
        wanted = {str(path.relative_to(ROOT)) for path in (ROOT / place).rglob("*.py")}
        assert wanted <= names, wanted - names
    data = [
        path for folder in ("report", "results") for path in (ROOT / "analysis" / folder).rglob("*") if path.is_file()
    ]
    wanted = {str(path.relative_to(ROOT)) for path in data if "__pycache__" not in path.parts}
    assert {
        "analysis/report/page.js",
        "analysis/report/plotly-basic.min.js.gz",
        "analysis/results/few_shot/rollouts.csv",
    } <= wanted
    assert wanted <= names, wanted - names
    assert "raypfrl/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 8e6, "most of it the committed results"


def python_of(folder: Path, *, without: str = "") -> list[str]:
    """The interpreter of a fresh environment with the wheel, which sees this one's packages but not this checkout."""
    hidden = f"sys.modules[{without!r}] = None; " if without else ""
    start = f"import sys; {hidden}sys.argv[0] = 'raypfrl'; from raypfrl.cli import main; sys.exit(main())"
    return [str(folder / "bin" / "python"), "-c", start]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; the other packages are this environment's."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    return folder


def ran(command: list[str], folder: Path, status: int = 0) -> str:
    """What a command prints, run in ``folder`` without this checkout on its path; its errors where it is to fail."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "WANDB_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_works_with_the_wheel_alone_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    raypfrl = python_of(installed)
    where = ran(
        [*raypfrl[:2], "import analysis, raypfrl, tune_configs; print(analysis.__file__, raypfrl.__file__)"], tmp_path
    )
    assert where.count(str(installed)) == 2
    said = {}
    for command in COMMANDS:
        arguments = shlex.split(command)[1:]
        said[command] = ran([*raypfrl, *arguments, *SMALL.get(arguments[0], [])], tmp_path)
    ran([raypfrl[0], "-c", EXAMPLE], tmp_path)
    (hint,) = [
        line for line in said["raypfrl sweep personalization --seeds 5"].splitlines() if "raypfrl report" in line
    ]
    report = shlex.split(hint.split("#")[0])[1:]
    assert Path(ran([*raypfrl, *report], tmp_path).strip()).is_file()
    assert "only the range of the seeds" in " ".join(said["raypfrl compare personalization"].split())
    assert (tmp_path / "figures" / "personalization.txt").read_text().count("5 seeds") == 1
    assert "/FontFile" in (tmp_path / "figures" / "personalization.pdf").read_bytes().decode("latin-1")
    assert "| F, exact | 0.79 |" in ran([*raypfrl, "table"], tmp_path)
    assert "here already" in ran([*raypfrl, "list", "--copy", "personalization"], tmp_path, 2)


@pytest.mark.slow
def test_without_the_extra_a_command_names_it_in_one_line(installed: Path, tmp_path: Path) -> None:
    raypfrl = python_of(installed, without="pandas")
    for command in (["report", "few_shot"], ["compare", "few_shot"], ["figures", "few_shot"], ["table"]):
        assert ran([*raypfrl, *command], tmp_path, 2) == "raypfrl: this needs pandas: pip install 'raypfrl[analysis]'\n"
    assert "few_shot" in ran([*raypfrl, "list"], tmp_path)
