"""docs/tracking.md names every metric. Run this file to write its table anew."""

from __future__ import annotations

from pathlib import Path

import raypfrl
from raypfrl.metrics import BY_M_ADAPT, METRICS
from raypfrl.tracking import journal, server, writer

PAGE = Path(raypfrl.__file__).parents[1] / "docs" / "tracking.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- /metrics -->"


def table() -> str:
    by_m_adapt = BY_M_ADAPT.format(m_adapt="M", split="SPLIT", outcome="OUTCOME")
    lines = {
        **METRICS,
        "held_out/NAME": "a metric before or after adaptation over the agents that do not learn",
        by_m_adapt: "return, success or final_distance after M trajectories of adaptation, for train or held_out",
    }
    rows = [f"| `{name}` | {text} |" for name, text in ((n, t.replace("|", "\\|")) for n, t in lines.items())]
    return "\n".join(["| metric | what |", "|---|---|", *rows])


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text[: text.index(BEGIN) + len(BEGIN)] + table() + "\n" + text[text.index(END) :]


def test_every_metric_is_in_the_table() -> None:
    """If this fails: python -m tests.tracking.test_docs"""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_stated_bounds_are_the_ones_that_hold() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"| {journal.END:g} s for the writer" in text
    assert f"server's check at its start | {server.CHECK:g} s |" in text
    assert writer.INIT == writer.FINISH
    assert f"the begin or the end of a run, online | {writer.INIT:g} s |" in text
    assert f"uploads after the last trial | {writer.LAST_UPLOADS:g} s," in text
    assert f"**{writer.FLUSH:g} second**" in text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
