"""Figures of tools/bench, as files whose bytes depend only on the drawn content."""

import sys

from about import RESULTS

COLORS = ["#0b6e99", "#d1495b", "#5b8c2a", "#8a4fbf", "#b8860b", "#444444", "#d17a22", "#3a9d9d",
          "#999999", "#e58fb1"]
COLUMNS = 3


def panels(count):
    """(figure, `count` axes, row by row); ends the program if matplotlib is missing."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("tools/bench: figures need python3-matplotlib; `tools/setup plot` installs it")
    pyplot.rcParams["svg.hashsalt"] = "starling"
    columns, rows = min(count, COLUMNS), -(-count // COLUMNS)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.2 * columns, 4.8 * rows),
                                   squeeze=False)
    for each in axes.flat[count:]:
        each.remove()
    for each in axes.flat[:count]:
        each.grid(True, linewidth=0.3)
    return figure, axes.flat[:count]


def save(figure, name):
    """results/NAME.svg and .png."""
    figure.tight_layout()
    for ending, metadata in (("svg", {"Date": None}), ("png", None)):
        figure.savefig(RESULTS / f"{name}.{ending}", dpi=110, metadata=metadata)
