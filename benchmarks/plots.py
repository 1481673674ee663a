"""Plots of the growth measurements, as SVG files beside docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TITLES = {
    "rows": "beside settled rows, 1x4",
    "threads": "by threads of one process",
    "processes": "by processes of four threads",
    "payload": "by bytes of the input, 1x4",
    "handler": "by the time that the handler waits, 1x4",
}
COLOURS = {"A": "#8a8a8a", "floor": "#3b6fb6", "product": "#c0502d"}


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw one panel for each measurement; ``found`` holds their values by what grew."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "orbit", "svg.fonttype": "none", "font.size": 9}
    from matplotlib import pyplot

    columns = min(len(found), 2)
    lines = -(-len(found) // columns)
    figure, panels = pyplot.subplots(lines, columns, figsize=(4.5 * columns, 3 * lines), squeeze=False)
    for panel, (by, values) in zip(panels.flat, found.items(), strict=False):
        _panel(panel, by, values)
    for panel in list(panels.flat)[len(found) :]:
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _panel(panel: Any, by: str, values: dict[str, Any]) -> None:
    for name, rates in values["rates"].items():
        panel.plot(values["points"], rates, marker="o", markersize=3, label=name, color=COLOURS.get(name))
    if by in ("rows", "payload"):
        panel.set_xscale("log")
    else:
        panel.set_xticks(values["points"])
    panel.set_ylim(0, 1.1 * max(rate for rates in values["rates"].values() for rate in rates))
    panel.set_title(f"tasks/s {TITLES[by]}", fontsize=9)
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, fontsize=8)
