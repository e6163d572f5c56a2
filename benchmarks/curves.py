#!/usr/bin/env python3
"""
The growth curves of benchmarks/README.md, as SVG: nodes, jobs, targets, entries.

    curves.py                  from results.txt, as `run.py` left it
    curves.py FILE             from another output of `run.py`
    curves.py --measure        measures the two figures it needs (scale, harvest_server) itself

Both axes are logarithmic.  The dashed line grows in proportion: a curve that is steeper than that
would be one to worry about.
"""

import math
import os
import sys
from collections import namedtuple
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECTORY = os.path.join(HERE, "curves")

Curve = namedtuple("Curve", "file title table x lines unit")
Curve.__doc__ = """
One drawing.

Attributes:
    file: its name in curves/; title: what stands above it.
    table: how the title of its table begins.
    x: what is below the axis; the table's first column has its values.
    lines: {what it is called: (header of its column, what to multiply it with: a number or "x")}.
    unit: what stands at the y axis.
"""

CURVES = (
    Curve("nodes.svg", "Nodes that stop at the same moment", "scale: nodes", "nodes",
          {"all are counted": ("seconds", 1), "peak memory / 100 MiB": ("peak MiB", 0.01)},
          "seconds"),
    Curve("jobs.svg", "Jobs of 4 nodes that end at the same moment", "scale: jobs", "jobs",
          {"all nodes answered": ("reports s", 1), "all records there": ("records s", 1),
           "slowest concurrent hello": ("slowest", 0.001)}, "seconds"),
    Curve("targets.svg", "Targets of one job", "scale: targets", "targets",
          {"adding one node's": ("adding us each", "x"), "the record": ("record us", "x"),
           "the long table": ("long table us", "x")}, "CPU us"),
    Curve("entries.svg", "Entries of one sweep (a job on a target)", "The site's server: one sweep",
          "entries", {"all changed": ("all changed, CPU s", 1), "1 % changed":
                      ("1 % changed, CPU s", 1)}, "CPU seconds"),
)

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 400, 70, 20, 40, 50
_COLOURS = ("#0b62a4", "#c0392b", "#2e7d32")        # told apart by their marks, too
_MARKS = ("circle", "square", "triangle")


def main(arguments):
    """Draw them; the exit status."""
    if arguments == ["--measure"]:
        text = _measured()
    else:
        with open(arguments[0] if arguments else os.path.join(HERE, "results.txt"),
                  encoding="utf-8") as file:
            text = file.read()
    tables, drawn = tables_of(text), 0
    os.makedirs(DIRECTORY, exist_ok=True)
    for curve in CURVES:
        try:
            points = points_of(curve, tables)
        except ValueError as error:
            print(f"curves.py: {curve.file}: {error}", file=sys.stderr)
            continue
        with open(os.path.join(DIRECTORY, curve.file), "w", encoding="utf-8") as file:
            file.write(svg(curve, points))
        drawn += 1
    return 0 if drawn == len(CURVES) else 1


def _measured():
    import harvest_server
    import scale
    from run import as_text
    texts = [as_text(table) for figure in (scale, harvest_server) for table in figure.run(False)]
    print("\n\n".join(texts))
    return "\n\n".join(texts)


# -- what run.py has printed -------------------------------------------------------------------

def tables_of(text):
    """{title: (headers, rows)} of the tables in an output of run.py; all cells are text."""
    found, lines = {}, text.split("\n")
    for at, line in enumerate(lines):
        if at < 3 or not line.startswith("---") or set(line) != {"-", " "}:
            continue
        ends, cells = 0, []
        for dashes in line.split():
            begins = line.index(dashes, ends)
            ends = begins + len(dashes)
            cells.append((begins, ends))
        rows = []
        for row in lines[at + 1:]:
            # A note below the table does not keep to its columns.
            if not row.strip() or any(row[end:end + 1].strip() for _, end in cells[:-1]):
                break
            rows.append([row[begin:end].strip() for begin, end in cells])
        while rows and not all(rows[-1]):
            rows.pop()
        found[lines[at - 3]] = ([lines[at - 1][begin:end].strip() for begin, end in cells], rows)
    return found


def points_of(curve, tables):
    """{name of a line: [(x, y)]}; ValueError where the table is not there."""
    known = [table for title, table in tables.items() if title.startswith(curve.table)]
    if not known:
        raise ValueError(f"no table {curve.table!r}...; run.py without --quick makes it")
    headers, rows = known[0]
    found = {}
    for name, (header, factor) in curve.lines.items():
        if header not in headers:
            raise ValueError(f"{curve.table!r} has no column {header!r}, but {', '.join(headers)}")
        column = headers.index(header)
        points = {}
        for row in rows:
            try:
                x, y = _amount(row[0]), float(row[column].replace(",", ""))
            except ValueError:
                continue                                # a note
            points[x] = y * (x if factor == "x" else factor)
        found[name] = sorted((x, y) for x, y in points.items() if y > 0)
    return found


def _amount(cell):
    """3000 of "3,000"; 200000 of "20 targets x 10,000 jobs"."""
    amount = 1.0
    for part in cell.replace(",", "").split(" x "):
        amount *= float(part.split()[0])
    return amount


# -- the drawing -------------------------------------------------------------------------------

def svg(curve, lines):
    """The text of an SVG of {name: [(x, y)]}."""
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError(f"{curve.file}: no points")
    x_of = _axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    y_of = _axis([y for _, y in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
             f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="13">',
             f'<title>{escape(curve.title)}</title>',
             f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
             _text(_WIDTH / 2, 22, curve.title, "middle", 15)]
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in x_of.ticks:
        parts.append(_line(x_of(value), bottom, x_of(value), _TOP, "#ddd"))
        parts.append(_text(x_of(value), bottom + 18, _number(value), "middle"))
    for value in y_of.ticks:
        parts.append(_line(_LEFT, y_of(value), right, y_of(value), "#ddd"))
        parts.append(_text(_LEFT - 6, y_of(value) + 4, _number(value), "end"))
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 10, curve.x, "middle"))
    parts.append(f'<g transform="rotate(-90 16 {_HEIGHT / 2:.0f})">'
                 + _text(16, _HEIGHT / 2, curve.unit, "middle") + "</g>")
    parts.append(_proportion(lines, x_of, y_of))
    for place, (name, line) in enumerate(lines.items()):
        colour, mark = _COLOURS[place], _MARKS[place]
        at = [(x_of(x), y_of(y)) for x, y in line]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                     + " ".join(f"{x:.1f},{y:.1f}" for x, y in at) + '"/>')
        parts += [_mark(mark, x, y, colour) for x, y in at]
        y = _TOP + 16 + 18 * place
        parts += [_mark(mark, _LEFT + 16, y - 4, colour), _text(_LEFT + 28, y, name)]
    return "\n".join([*parts, "</svg>\n"])


class _axis:
    """Where on the paper a value is: whole powers of ten at both ends."""

    def __init__(self, values, begins, ends):
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        last = max(last, first + 1)
        self.ticks = [10.0**power for power in range(first, last + 1)]
        self.least, self.most = self.ticks[0], self.ticks[-1]
        self._begins, self._step = begins, (ends - begins) / (last - first)
        self._first = first

    def __call__(self, value):
        return self._begins + (math.log10(value) - self._first) * self._step


def _proportion(lines, x_of, y_of):
    """A dashed line through the last point of the first line, as far as the paper goes."""
    x, y = next(line for line in lines.values() if line)[-1]
    least = max(x_of.least, x * y_of.least / y)
    return _line(x_of(least), y_of(y * least / x), x_of(x), y_of(y), "#888", "5 4")


def _line(x1, y1, x2, y2, colour, dashes=""):
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}"{dashed}/>')


def _text(x, y, text, anchor="start", size=None):
    sized = f' font-size="{size}"' if size else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{sized}>{escape(text)}</text>'


def _mark(mark, x, y, colour):
    if mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    if mark == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" fill="{colour}"/>'


def _number(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(HERE))
    sys.exit(main(sys.argv[1:]))
