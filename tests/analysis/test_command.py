"""``python -m analysis``: exit status, one clear line, and what it may import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
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
    kinds = ("png", "svg", "pdf", "txt")
    assert capsys.readouterr().out.split() == [str(tmp_path / f"{n}.{kind}") for n in names for kind in kinds]


def test_a_figure_that_cannot_be_drawn_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figures", "few_shot", "round", "--results", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    out, error = capsys.readouterr()
    assert "round.png" in out
    assert error.startswith("figure few_shot not drawn: ")
    assert error.count("\n") == 1


def test_an_unknown_figure_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "curvature"]) == 2
    error = capsys.readouterr().err
    known = f"there are {', '.join(FIGURES)}; a folder of results is drawn by its curves"
    assert error == f"analysis: no figure 'curvature'; {known}\n"


def test_a_report_of_committed_results_is_written_here_and_not_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "few_shot"]) == 0
    assert capsys.readouterr().out == "few_shot.html\n"
    assert Path("few_shot.html").is_file()


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.backend_inline", "garbage"])
def test_figures_are_drawn_whatever_backend_is_inherited(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "analysis", "figures", "round", "--format", "svg", "--out", str(tmp_path)]
    environment = {**os.environ, "MPLBACKEND": backend, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_early_is_no_traceback(tmp_path: Path) -> None:
    """``table | head -1``: the pipe's other end is closed before the table is written."""
    command = (
        f"{sys.executable} -m raypfrl.cli table | {sys.executable} -c 'import os; os.close(0)'; echo ${{PIPESTATUS[0]}}"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize("command", [["report"], ["compare"], ["keep"], ["figures", "few_shot", "--results"]])
def test_a_loop_of_links_is_one_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert main([*command, str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


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


def test_what_is_kept_compressed_reads_alike_and_has_no_clocks(
    tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]
) -> None:
    source = write_sweep(tmp_path, "personalization", 2)
    trial = pd.read_csv(source / "trials.csv")["trial"].iloc[0]
    (source / "metrics.csv").write_text(
        f"trial,round,source,seconds,refused,diagnostics/bias\n{trial},0,ab,1.5,2,0.25\n"
    )
    given = load(source)
    for out in ("a", "b"):
        command = ["keep", str(source), "--results", str(tmp_path / out), "--metrics", "--compress"]
        assert main(command) == 0
    kept = load(tmp_path / "a" / "personalization")
    pd.testing.assert_frame_equal(kept.evaluations, given.evaluations)
    assert kept.metrics["metric"].tolist() == ["refused", "diagnostics/bias"]
    for table in ("trials.csv.gz", "evaluations.csv.gz", "metrics.csv.gz"):
        first, second = ((tmp_path / out / "personalization" / table).read_bytes() for out in ("a", "b"))
        assert first == second
