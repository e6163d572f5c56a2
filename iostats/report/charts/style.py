"""
The colours of charts, and of the pages around them, in a light and a dark theme.

Read is blue and written orange (Okabe and Ito's, which all kinds of sight tell apart, made darker
or lighter until each has 4.5 : 1 against its ground, as WCAG 2 wants it of text).
"""

from __future__ import annotations

import re

KINDS = ("read", "write", "operations", "all", "latency")

LIGHT = {
    "ground": "#ffffff", "panel": "#f5f6f8", "ink": "#16202c", "dim": "#51606f",
    "line": "#d5dbe1", "read": "#0b63a5", "write": "#b34a00", "operations": "#00705a",
    "latency": "#8a2f74", "all": "#51606f", "bad": "#b3261e", "bad-ground": "#fdecea",
    "good": "#00705a", "good-ground": "#e5f4ef", "warn": "#8a5a00", "warn-ground": "#fdf3dc",
    "link": "#0b57a0", "gap": "#8b97a3", "shade": "#8b97a3"}
DARK = {
    "ground": "#11171d", "panel": "#1a222b", "ink": "#e8edf2", "dim": "#a3b1bf",
    "line": "#36424e", "read": "#5cb3f0", "write": "#f2994a", "operations": "#3cc79f",
    "latency": "#e08acb", "all": "#a3b1bf", "bad": "#ff8f85", "bad-ground": "#3a1f1e",
    "good": "#3cc79f", "good-ground": "#15312a", "warn": "#f0c060", "warn-ground": "#352a12",
    "link": "#7cc0ff", "gap": "#6b7885", "shade": "#93a3b3"}

_RULES = """\
.chart text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;\
fill:var(--dim)}
.chart .c-title{font-size:12px;font-weight:600;fill:var(--ink)}
.chart .c-value{font-size:12px;font-weight:400;fill:var(--dim)}
.chart .c-head{font-size:15px}
.c-y{text-anchor:end}
.c-m{text-anchor:middle}
.c-e{text-anchor:end}
.c-grid{stroke:var(--line);stroke-width:1}
.c-base{stroke:var(--dim);stroke-width:1}
.c-even{stroke:var(--ink);stroke-width:1;stroke-dasharray:5 4}
.c-mark{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:2 2}
.c-flag{fill:var(--bad)}
.chart .c-number{fill:var(--ground);font-weight:700;font-size:10px}
.c-gap{fill:var(--gap);fill-opacity:.22}
.c-area{stroke-width:1.2;vector-effect:non-scaling-stroke;fill-opacity:.3}
.chart .c-bar{fill-opacity:.9;stroke:none}
.c-line{fill:none;stroke-width:1.6;vector-effect:non-scaling-stroke;stroke-dasharray:5 3}
"""


def make_rules() -> str:
    """The CSS of charts, with colours as variables."""
    return _RULES + "".join(
        f".c-{kind}{{stroke:var(--{kind});fill:var(--{kind})}}\n.c-line.c-{kind}{{fill:none}}\n"
        for kind in KINDS)


def make_variables(theme: dict[str, str]) -> str:
    """The colours as CSS variables: "--ground:#fff;--ink:..."."""
    return ";".join(f"--{name}:{colour}" for name, colour in theme.items())


def make_theme_rules(theme: dict[str, str]) -> str:
    """The CSS of charts, with the colours of one theme: for a file that stands alone."""
    return re.sub(r"var\(--([a-z-]+)\)", lambda match: theme[match[1]], make_rules())
