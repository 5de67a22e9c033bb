"""The report page: what is in it, and that it works in a real browser without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.frames import load
from analysis.report import content, write

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,2600",
)  # fmt: skip


def test_everything_that_was_run_is_in_the_page(results: Path) -> None:
    found = content(load(results / "curvature_bottleneck"))
    json.dumps(found, allow_nan=False)
    assert len(found["trials"]) == 70
    assert found["varying"] == ["method", "m_h"]
    assert {"alpha", "beta", "tau", "m_in", "m_h"} <= set(found["axes"])
    assert found["run"]["command"] == "raypfrl sweep curvature_bottleneck"
    assert "raypfrl 0.1.0" in found["run"]["versions"]
    assert "torch" not in found["run"]["versions"]  # not installed there
    assert len(found["statistics"]) == 7
    assert found["statistics"][0]["seeds"] == 10


def test_trials_that_did_not_finish_are_in_the_page(
    tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]
) -> None:
    folder = write_sweep(tmp_path, "personalization", 3)
    trials = (folder / "trials.csv").read_text().splitlines()
    trials = [trials[0], trials[2].replace("finished", "diverged"), *trials[3:]]
    (folder / "trials.csv").write_text("\n".join(trials) + "\n")
    found = content(load(folder, partial=True))
    assert len(found["gaps"]) == 2
    assert sum(trial["status"] == "diverged" for trial in found["trials"]) == 1
    assert next(row["seeds"] for row in found["statistics"] if row["where"] == {"method": "exact"}) == 1


def test_the_page_cannot_be_broken_out_of(tmp_path: Path, write_sweep: Callable[[Path, str, int], Path]) -> None:
    folder = write_sweep(tmp_path, "personalization", 2)
    about = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(about | {"sweep": "<b>x</b>", "command": "</script><script>bad()"}))
    page = write(folder, tmp_path / "page.html").read_text()
    assert "<title>&lt;b&gt;x&lt;/b&gt;" in page
    assert "</script><script>bad()" not in page


def test_the_command_writes_the_page_and_says_where(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "page.html"
    assert main(["report", str(results / "few_shot"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert out.stat().st_size > 1e6
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "no such folder of results" in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium and chromedriver on this machine (Debian: apt-get install chromium chromium-driver)")
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium (pip install selenium)")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def written(results: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the curvature sweep's page."""
    return write(results / "curvature_bottleneck", tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture
def page(browser: Any, written: str) -> Any:
    """The page, freshly opened."""
    browser.get(written)
    return browser


def shown(page: Any) -> str:
    return str(page.find_element("id", "shown").text)


def test_the_page_draws_without_errors_and_without_a_network(page: Any) -> None:
    assert shown(page) == "70 of 70 trials shown"
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []
    for plot in ("curves", "outcomes", "parallel"):
        assert page.execute_script(f"return document.getElementById('{plot}').data.length") >= 1
    heads = [head.text for head in page.find_elements("css selector", "#trials th")]
    assert heads[:4] == ["trial", "method", "m_h", "seed"]


def test_a_click_on_a_filter_filters_every_plot_and_table(page: Any) -> None:
    def count(script: str) -> int:
        return int(page.execute_script(f"return {script}"))

    seeds = "document.getElementById('curves').data.flatMap(t => t.text ?? []).filter(Boolean).length"
    before = count(seeds)
    page.find_element("css selector", "input[data-setting='method'][data-value='fedavg_pg']").click()
    assert shown(page) == "60 of 70 trials shown"
    assert count(seeds) == before * 60 // 70
    assert count("document.querySelectorAll('#trials tbody tr').length") == 60
    assert count("document.querySelectorAll('#statistics tbody tr').length") == 6
    assert count("document.getElementById('parallel').data[0].dimensions[0].values.length") == 60
    page.find_element("css selector", "input[data-setting='m_h'][data-value='1000']").click()
    assert shown(page) == "50 of 70 trials shown"
    page.find_element("id", "reset").click()
    assert shown(page) == "70 of 70 trials shown"
    assert count(seeds) == before


def test_dragging_on_the_parallel_coordinates_keeps_a_range(page: Any) -> None:
    change = "Plotly.restyle('parallel', {'dimensions[1].constraintrange': [[[4.5, 5.5]]]})"
    page.execute_async_script(f"const done = arguments[0]; {change}.then(() => done())")
    assert page.execute_script("return document.getElementById('parallel').data[0].dimensions[1].label") == "m_h"
    assert shown(page) == "10 of 70 trials shown"
    page.find_element("id", "reset").click()
    assert shown(page) == "70 of 70 trials shown"


def test_a_click_on_a_heading_sorts_the_trials(page: Any) -> None:
    heading = "//table[@id='trials']//th[starts-with(., 'after/return')]"

    def column() -> list[float]:
        cells = page.execute_script(
            "const heads = [...document.querySelectorAll('#trials th')];"
            "const at = heads.findIndex(h => h.textContent.startsWith('after/return'));"
            "return [...document.querySelectorAll('#trials tbody tr')].map(r => Number(r.children[at].textContent))"
        )
        return [float(cell) for cell in cells]

    page.find_element("xpath", heading).click()
    assert column() == sorted(column())
    page.find_element("xpath", heading).click()
    assert column() == sorted(column(), reverse=True)


def test_the_page_can_show_other_axes(page: Any) -> None:
    for menu, value, axis in (("x", "trajectories", "xaxis"), ("measure", "success", "yaxis")):
        page.find_element("css selector", f"#{menu} option[value='{value}']").click()
        title = page.execute_script(f"return document.getElementById('curves').layout.{axis}.title.text")
        assert title.startswith(value)
