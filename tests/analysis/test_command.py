"""``python -m analysis``: exit status, one clear line, and what it may import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.figures import FIGURES
from analysis.frames import load

ROOT = Path(__file__).parents[2]


def test_all_figures_are_drawn_and_their_files_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["families", "curvature_bottleneck"]
    assert main(["figures", *names, "--results", str(results), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / f"{n}.{kind}") for n in names for kind in ("png", "svg")]


def test_a_figure_that_cannot_be_drawn_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figures", "few_shot", "round", "--results", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    out, error = capsys.readouterr()
    assert "round.png" in out
    assert error.startswith("analysis: figure few_shot not drawn: ")
    assert error.count("\n") == 1


def test_an_unknown_figure_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "curvature"]) == 2
    error = capsys.readouterr().err
    assert error == f"analysis: no figure curvature; there are {', '.join(FIGURES)}\n"


def test_the_analysis_imports_no_ray_torch_or_wandb() -> None:
    code = (
        "import sys, analysis.__main__, analysis.figures, analysis.table, analysis.report, analysis.statistics;"
        "from analysis.figures import FIGURES; FIGURES['families'].draw();"
        "print([name for name in ('ray', 'torch', 'wandb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("last", [False, True])
def test_keep_copies_the_tables_to_the_bit(results: Path, tmp_path: Path, last: bool) -> None:
    source, flag = results / "personalization", ["--last"] if last else []
    assert main(["keep", str(source), "--results", str(tmp_path), *flag]) == 0
    kept, whole = load(tmp_path / "personalization"), load(source)
    assert kept.about == whole.about
    assert (tmp_path / "personalization/trials.csv").read_bytes() == (source / "trials.csv").read_bytes()
    lines = (tmp_path / "personalization/evaluations.csv").read_text().splitlines()
    assert set(lines) <= set((source / "evaluations.csv").read_text().splitlines())
    final = whole.evaluations["round"] == whole.evaluations["round"].max()
    assert len(kept.evaluations) == len(whole.evaluations) if not last else len(kept.evaluations) >= final.sum()
