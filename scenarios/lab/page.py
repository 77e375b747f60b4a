"""The report of a run as one HTML page without scripts: faults on top, peers below, as SVG."""

import html
import math

from .measurements import Row

WIDTH, LEFT, RIGHT = 1000, 90, 20
ROW, GAP = 18, 6
CHART = 64
SILENCE = 3.0  # seconds without an answer that break a line
COLOURS = {"kill": "#c0392b", "restart": "#27ae60", "join": "#27ae60", "leave": "#7f8c8d",
           "stop": "#8e44ad", "partition": "#e67e22", "degrade": "#d4ac0d",
           "throttle": "#2980b9", "disk_full": "#795548", "end": "#34495e"}
PHASES = {"waiting": "#eeeeee", "training": "#d5f0dc", "settling": "#d6e6f5",
          "finishing": "#d6e6f5", "done": "#d6e6f5"}
CHARTS = [("accuracy", "#1a5276"), ("loss", "#922b21"), ("drift", "#9a7d0a"),
          ("links", "#4a235a"), ("bytes_sent", "#0e6251")]
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1040px; color: #222; }
h1 { font-size: 1.4em; margin-bottom: 0; } h2 { font-size: 1.05em; margin: 1.4em 0 .3em; }
table { border-collapse: collapse; } td, th { padding: .15em .8em .15em 0; text-align: left; }
.passed { color: #1e8449; } .failed { color: #c0392b; font-weight: bold; }
svg { display: block; } svg text { font: 11px system-ui, sans-serif; fill: #333; }
"""


class Scale:
    """Seconds to pixels."""

    def __init__(self, seconds):
        self.seconds = max(seconds, 1e-9)

    def __call__(self, t):
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(t / self.seconds, 0), 1)

    def ticks(self):
        step = 10 ** math.floor(math.log10(self.seconds))
        for part in (1, 2, 5, 10):
            if self.seconds / (step * part / 5) <= 12:
                step = step * part / 5
                break
        return [i * step for i in range(int(self.seconds / step) + 1)]


def _svg(height, parts):
    return (f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img">{"".join(parts)}</svg>')


def _axis(x, height):
    parts = []
    for t in x.ticks():
        parts.append(f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="0" y2="{height - 14}" '
                     'stroke="#ddd"/>'
                     f'<text x="{x(t):.1f}" y="{height - 2}" text-anchor="middle">{t:g} s</text>')
    return parts


def _number(value):
    if value is None:
        return "-"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value / 1e3:.3g} k" if abs(value) >= 1e4 else f"{value:.3g}"


def faults(record, x):
    """One row per kind of event; each event is a mark, or a bar as long as the event lasted."""
    kinds = [kind for kind in COLOURS if any(e["kind"] == kind for e in record["events"])]
    height = len(kinds) * (ROW + GAP) + 16
    parts = _axis(x, height)
    for row, kind in enumerate(kinds):
        y = row * (ROW + GAP)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{kind}</text>')
        for event in record["events"]:
            if event["kind"] != kind:
                continue
            begin = x(event["at"])
            width = max(3.0, x(event["until"]) - begin) if event["until"] is not None else 3.0
            title = html.escape(f"{event['at']:.1f} s: {event['text']}")
            parts.append(f'<rect x="{begin:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" '
                         f'fill="{COLOURS[kind]}" opacity="0.75"><title>{title}</title></rect>')
    return _svg(height, parts)


def _line(rows, column, x, top, low, high):
    """The line is broken if nothing was heard for a while."""
    parts, points, last = [], [], None

    def flush():
        if points:
            parts.append(" ".join(points))
            points.clear()
    for row in rows:
        value = getattr(row, column)
        if value is None:
            continue
        if last is not None and row.seconds - last > SILENCE:
            flush()
        last = row.seconds
        y = top + (CHART - 10) * (1 - (value - low) / (high - low))
        points.append(f"{x(row.seconds):.1f},{y:.1f}")
    flush()
    return parts


def _phases(rows):
    """(begin, end, phase) of each stretch in which a peer answered and reported the same phase."""
    stretches = []
    for row in rows:
        last = stretches[-1] if stretches else None
        if last and row.seconds - last[1] <= SILENCE:
            last[1] = row.seconds
            if last[2] == row.phase:
                continue
        stretches.append([row.seconds, row.seconds, row.phase])
    return stretches


def chart(peers, column, colour, x):
    """All peers' values of one column, one small strip per peer, with a common scale. `peers`:
    (peer of the record, its Rows)."""
    values = [getattr(row, column) for _, rows in peers for row in rows]
    values = [value for value in values if value is not None]
    if not values:
        return ""
    low, high = (0.0 if column != "accuracy" else min(values)), max(values)
    if high <= low:
        high = low + 1
    height = len(peers) * (CHART + GAP) + 16
    parts = _axis(x, height)
    for index, (peer, rows) in enumerate(peers):
        top = index * (CHART + GAP)
        for begin, end, phase in _phases(rows):
            parts.append(f'<rect x="{x(begin):.1f}" y="{top}" '
                         f'width="{max(0.5, x(end) - x(begin)):.1f}" height="{CHART - 4}" '
                         f'fill="{PHASES.get(phase, "#fff")}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{top + 14}" text-anchor="end">'
                     f'{html.escape(peer["name"])}</text>'
                     f'<text x="{LEFT - 8}" y="{top + 30}" text-anchor="end" fill="#777">'
                     f'{html.escape(peer["region"])}</text>'
                     f'<text x="{LEFT - 8}" y="{top + 46}" text-anchor="end">'
                     f'max {_number(high)}</text>')
        for points in _line(rows, column, x, top + 3, low, high):
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                         'stroke-width="1.5"/>')
    return f"<h2>{column.replace('_', ' ')}</h2>" + _svg(height, parts)


def expectations(record):
    rows = []
    for result in record["expectations"]:
        state = "passed" if result["passed"] else "failed"
        value = "not measured" if result["value"] is None else f"{result['value']:g}"
        rows.append(f'<tr><td class="{state}">{state}</td><td>{result["name"]}</td>'
                    f'<td>{value}</td><td>{result["limit"]:g}</td></tr>')
    return ("<table><tr><th></th><th>expectation</th><th>measured</th><th>limit</th></tr>"
            + "".join(rows) + "</table>") if rows else "<p>Nothing was expected.</p>"


def notes(record):
    if not record["notes"]:
        return ""
    said = "".join(f"<li>{html.escape(note)}</li>" for note in record["notes"])
    return f"<h2>what the judge noticed</h2><ul>{said}</ul>"


def render(record):
    """The whole page."""
    x = Scale(record["seconds"])
    scenario = record["scenario"]
    state = "passed" if record["passed"] else "failed"
    name = html.escape(scenario["name"])
    peers = [(peer, [Row(*row) for row in peer["rows"]]) for peer in record["peers"]]
    charts = "".join(chart(peers, column, colour, x) for column, colour in CHARTS)
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
            f"<style>{STYLE}</style></head><body><h1>{name}: "
            f'<span class="{state}">{state}</span></h1><p>{html.escape(scenario["about"])}<br>'
            f'{len(record["peers"])} real peers, {record["seconds"]:.0f} s, seed '
            f'{scenario["seed"]}</p>{expectations(record)}<h2>what happened</h2>'
            f"{faults(record, x)}{charts}{notes(record)}</body></html>\n")
