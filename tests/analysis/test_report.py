"""The report page: what is in it, and that it works in a real browser without a network."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.frames import load
from analysis.report import content, follow, write

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,2600",
)  # fmt: skip


Write = Callable[[Path, str, int], Path]
NASTY = "<!--<script>bad()</script>--></script><img src=x onerror=bad()>${bad()}"


def unpacked(page: Path) -> dict[str, Any]:
    """The data of a page."""
    (packed,) = re.findall(r'<script id="data" type="text/plain">([A-Za-z0-9+/=]*)</script>', page.read_text())
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def test_everything_that_was_run_is_in_the_page(results: Path) -> None:
    found = content(load(results / "curvature_bottleneck"))
    json.dumps(found, allow_nan=False)
    assert len(found["trials"]["trial"]) == 70
    assert found["varying"] == ["method", "m_h"]
    assert {"alpha", "beta", "tau", "m_in", "m_h"} <= set(found["axes"])
    assert found["run"]["command"] == "raypfrl sweep curvature_bottleneck"
    assert "raypfrl 0.1.0" in found["run"]["versions"]
    assert "torch" not in found["run"]["versions"]  # not installed there
    assert len(found["statistics"]) == 7
    assert found["statistics"][0]["seeds"] == 10
    assert {row["kind"] for row in found["comparison"]["rows"]} == {"final", "trajectories", "floats", "area"}


def test_trials_that_did_not_finish_run_or_wait_are_in_the_page(tmp_path: Path, write_sweep: Write) -> None:
    """One diverged, one runs (it has evaluations and no row), one waits."""
    folder = write_sweep(tmp_path, "personalization", 3)
    trials = pd.read_csv(folder / "trials.csv")
    gone = trials["trial"][2]
    trials.loc[0, "status"] = "diverged"
    trials.drop([1, 2]).to_csv(folder / "trials.csv", index=False)
    rows = pd.read_csv(folder / "evaluations.csv", dtype=str)
    rows[rows["trial"] != gone].to_csv(folder / "evaluations.csv", index=False)
    found = content(load(folder, partial=True))
    assert len(found["gaps"]) == 3
    assert found["trials"]["status"][:4] == ["diverged", "running", "waiting", "finished"]
    assert set(found["evaluations"]["trial"]) == {0, 1, *range(3, 9)}
    assert [row["seeds"] for row in found["statistics"] if row["where"] == {"method": "first_order"}] == [3]


def test_diagnostics_commits_and_rollouts_are_in_the_page(tmp_path: Path, write_sweep: Write) -> None:
    folder = write_sweep(tmp_path, "few_shot", 2)
    trials = pd.read_csv(folder / "trials.csv").assign(commit="abc123", source="f00d")
    trials.to_csv(folder / "trials.csv", index=False)
    measured = [(trials["trial"][0], k, "diagnostics/bias", 0.5) for k in (0, 1)]
    pd.DataFrame(measured, columns=["trial", "round", "metric", "value"]).to_csv(
        folder / "diagnostics.csv", index=False
    )
    found = content(load(folder))
    assert found["metrics"] == {
        "trial": [0, 0],
        "round": [0, 1],
        "metric": ["diagnostics/bias"] * 2,
        "value": [0.5, 0.5],
    }
    assert found["sources"] == {"commit": "abc123 (4 trials)", "source": "f00d (4 trials)"}
    assert set(found["rollouts"]["phase"]) == {"before", "after", "from scratch"}


def test_the_page_of_a_hundred_trials_is_below_a_megabyte(tmp_path: Path, write_sweep: Write) -> None:
    folder = write_sweep(tmp_path, "personalization", 34)  # 102 trials with 42 evaluations each
    assert write(folder, tmp_path / "page.html").stat().st_size < 1e6


def test_nothing_from_a_run_stands_in_the_page_as_markup(tmp_path: Path, write_sweep: Write) -> None:
    page = write(spoilt(write_sweep(tmp_path, "personalization", 2)), tmp_path / "page.html")
    assert "bad()" not in page.read_text().replace(html.escape(NASTY), "")
    assert unpacked(page)["name"] == NASTY
    assert NASTY in unpacked(page)["trials"]["message"]


def spoilt(folder: Path) -> Path:
    """The sweep with a name, a command, a method and a message that are markup and script."""
    about = json.loads((folder / "sweep.json").read_text())
    trials = pd.read_csv(folder / "trials.csv").assign(message=NASTY)
    trials["method"] = trials["method"].replace("fedavg_pg", NASTY)
    trials.to_csv(folder / "trials.csv", index=False)
    plan = {row.pop("trial"): row for row in trials.drop(columns=["status", "message"]).to_dict("records")}
    (folder / "sweep.json").write_text(json.dumps(about | {"sweep": NASTY, "command": NASTY, "trials": plan}))
    return folder


def test_a_live_report_follows_the_sweep_to_its_end(tmp_path: Path, write_sweep: Write) -> None:
    folder, out = tmp_path / "personalization", tmp_path / "page.html"
    following = follow(folder, out, every=0)
    assert next(following).startswith("waiting: ")
    write_sweep(tmp_path, "personalization", 2)
    whole = {name: (folder / name).read_text() for name in ("trials.csv", "evaluations.csv")}
    (folder / "trials.csv").unlink()
    (folder / "evaluations.csv").write_text("\n".join(whole["evaluations.csv"].splitlines()[:9]) + "\n")
    assert next(following) == "0 of 6 trials have ended"
    assert unpacked(out)["live"]
    assert unpacked(out)["trials"]["status"] == ["running", *["waiting"] * 5]
    for name, text in whole.items():
        (folder / name).write_text(text)
    assert next(following) == "6 of 6 trials have ended"
    assert not unpacked(out)["live"]
    assert list(following) == []


def test_the_command_writes_the_page_and_says_where(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "page.html"
    assert main(["report", str(results / "few_shot"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert unpacked(out)["name"] == "few_shot"
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


def opened(browser: Any, address: str) -> Any:
    """The page at an address, freshly opened and drawn."""
    browser.get("about:blank")
    browser.get(address)
    end = time.monotonic() + 120
    while not browser.execute_script("return document.documentElement.dataset.ready"):
        assert time.monotonic() < end, browser.get_log("browser")
        time.sleep(0.05)
    return browser


@pytest.fixture
def page(browser: Any, written: str) -> Any:
    """The curvature sweep's page."""
    return opened(browser, written)


def shown(page: Any) -> str:
    return str(page.find_element("id", "shown").text)


def asked(page: Any, script: str) -> Any:
    return page.execute_script(f"return {script}")


def click(page: Any, selector: str) -> None:
    """As a user does: scrolled to and clicked."""
    node = page.find_element("css selector", selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", node)
    node.click()


def severe(page: Any) -> list[Any]:
    return [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_page_draws_without_errors_and_without_a_network(page: Any) -> None:
    assert shown(page) == "70 of 70 trials shown"
    assert asked(page, "performance.getEntriesByType('resource').length") == 0
    assert severe(page) == []
    for plot in ("curves", "outcomes", "parallel"):
        assert asked(page, f"document.getElementById('{plot}').data.length") >= 1
        assert asked(page, f"document.getElementById('{plot}').getAttribute('aria-label')")
    heads = [head.text for head in page.find_elements("css selector", "#trials th")]
    assert heads[:4] == ["trial", "method", "m_h", "seed"]


def test_what_came_from_a_run_is_shown_as_text(browser: Any, tmp_path: Path, write_sweep: Write) -> None:
    page = opened(browser, write(spoilt(write_sweep(tmp_path, "personalization", 2)), tmp_path / "page.html").as_uri())
    assert page.find_element("id", "name").text == NASTY
    assert any(cell.text == NASTY for cell in page.find_elements("css selector", "#trials td"))
    strange = "main img:not(#film), main script, svg image, svg a"
    assert asked(page, f"document.querySelectorAll('{strange}').length") == 0
    assert severe(page) == []
    assert shown(page) == "6 of 6 trials shown"


def test_a_click_on_a_filter_filters_every_plot_and_table(page: Any) -> None:
    click(page, "#seeds")
    seeds = "document.getElementById('curves').data.flatMap(t => t.text ?? []).filter(Boolean).length"
    before = asked(page, seeds)
    click(page, "input[data-setting='method'][data-value='fedavg_pg']")
    assert shown(page) == "60 of 70 trials shown"
    assert asked(page, seeds) == before * 60 // 70
    assert asked(page, "document.querySelectorAll('#trials tbody tr').length") == 60
    assert asked(page, "document.querySelectorAll('#statistics tbody tr').length") == 6
    assert asked(page, "document.querySelectorAll('#legend li').length") == 6
    click(page, "input[data-setting='m_h'][data-value='1000']")
    assert shown(page) == "50 of 70 trials shown"
    click(page, "#reset")
    assert shown(page) == "70 of 70 trials shown"
    assert asked(page, seeds) == before


def test_curves_can_be_averaged_over_a_setting(page: Any, results: Path) -> None:
    """Without m_h apart: the median over seeds of each seed's mean over m_h."""
    click(page, "input[data-apart='m_h']")
    entries = [entry.text for entry in page.find_elements("css selector", "#legend button")]
    assert entries == ["exact (60)", "fedavg_pg (10)"]
    last = load(results / "curvature_bottleneck").evaluations.query(
        "method == 'exact' and phase == 'after' and round == 150"
    )
    expected = last.groupby("seed")["return"].mean().median()
    assert asked(
        page, "document.getElementById('curves').data.find(t => t.name === 'exact').y.at(-1)"
    ) == pytest.approx(expected, rel=1e-4)


def test_a_click_on_the_legend_hides_a_curve_and_every_look_is_different(page: Any) -> None:
    named = "document.getElementById('curves').data.filter(t => t.name).map(t => t.name)"
    assert len(asked(page, named)) == 7
    click(page, "#legend button")
    assert len(asked(page, named)) == 6
    assert page.find_element("css selector", "#legend button").get_attribute("aria-pressed") == "false"
    looks = asked(
        page, "[...Array(LOOKS).keys()].map(n => { order.set('p' + n, n); return JSON.stringify(lookOf('p' + n)); })"
    )
    assert len(set(looks)) == len(looks) == 48


def test_dragging_a_box_over_an_axis_keeps_the_trials_that_pass_it(page: Any) -> None:
    """m_h is the second axis, and 1000 at its top; no other axis is in the box."""
    from selenium.webdriver import ActionChains

    plot = page.find_element("css selector", "#parallel .nsewdrag")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    at = "(([x, y], l) => [l.xaxis.d2p(x), l.yaxis.d2p(y)])"
    (x, top), (right, bottom) = (
        asked(page, f"{at}({corner}, document.getElementById('parallel')._fullLayout)")
        for corner in ([0.7, 1.05], [1.3, 0.95])
    )
    middle = (plot.size["width"] / 2, plot.size["height"] / 2)
    drag = (
        ActionChains(page).move_to_element_with_offset(plot, int(x - middle[0]), int(top - middle[1])).click_and_hold()
    )
    drag.move_by_offset(int(right - x) // 2, int(bottom - top)).move_by_offset(
        int(right - x) // 2, 0
    ).release().perform()
    assert shown(page) == "10 of 70 trials shown"
    click(page, "#reset")
    assert shown(page) == "70 of 70 trials shown"


def test_a_heading_sorts_the_trials_by_mouse_and_by_keyboard(page: Any) -> None:
    def column() -> list[float]:
        cells = page.execute_script(
            "const heads = [...document.querySelectorAll('#trials th')];"
            "const at = heads.findIndex(h => h.textContent.startsWith('after/return'));"
            "return [...document.querySelectorAll('#trials tbody tr')].map(r => Number(r.children[at].textContent))"
        )
        return [float(cell) for cell in cells]

    heading = page.find_element("xpath", "//table[@id='trials']//th[starts-with(., 'after/return')]/button")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", heading)
    heading.click()
    assert column() == sorted(column())
    page.switch_to.active_element.send_keys("\ue007")  # Enter, on the heading that kept the focus
    assert column() == sorted(column(), reverse=True)
    sort = page.find_element("xpath", "//table[@id='trials']//th[starts-with(., 'after/return')]").get_attribute(
        "aria-sort"
    )
    assert sort == "descending"


def test_the_page_can_show_other_axes_and_remembers_them_when_it_reloads(page: Any) -> None:
    for menu, value, axis in (("x", "trajectories", "xaxis"), ("measure", "success", "yaxis")):
        click(page, f"#{menu} option[value='{value}']")
        assert asked(page, f"document.getElementById('curves').layout.{axis}.title.text").startswith(value)
    click(page, "input[data-setting='m_h'][data-value='10']")
    kept = page.current_url
    again = opened(page, kept)
    assert shown(again) == "50 of 70 trials shown"
    assert asked(again, "document.getElementById('curves').layout.yaxis.title.text") == "success"


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_any_width_and_is_legible_in_dark_and_light(
    browser: Any, written: str, width: int, scheme: str
) -> None:
    """Nothing overflows sideways; text has the contrast that WCAG AA asks for (4.5)."""
    size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
    try:
        page = opened(browser, written)
        assert asked(page, "document.documentElement.scrollWidth") <= width
        assert asked(page, "document.documentElement.classList.contains('dark')") == (scheme == "dark")
        for selector in (".note", "h1", "#trials td", "#legend button", ".chip .count", "legend button"):
            ink, paper = (
                asked(page, f"getComputedStyle(document.querySelector({where!r})).{what}")
                for where, what in ((selector, "color"), ("aside", "backgroundColor"))
            )
            assert contrast(ink, paper) >= 4.5, (selector, ink, paper)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(*colours: str) -> float:
    """WCAG's contrast of two ``rgb(...)``."""
    lights = []
    for colour in colours:
        parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)
