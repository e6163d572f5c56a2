"""
Templates: autoescape is always on, and names of others can neither be markup nor tear the layout.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iostats.base.errors import one_line
from iostats.base.text import cut, width_of
from iostats.report.charts import style

_LONGEST_NAME = 60                  # columns that are shown of a name
_LONGEST_TITLE = 400                # characters of it that its title has
_LONGEST_TEXT = 600                 # columns of a sentence
_UNBROKEN = 24                      # columns of a word that is not broken


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this package, with the filters of this module."""
    found = Environment(loader=PackageLoader("iostats.report.html"), autoescape=True,
                        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                        keep_trailing_newline=True)
    found.filters.update(name=name, said=said, moment=moment, bar=bar, label=label)
    return found


def name(text: str, most: int = _LONGEST_NAME) -> Markup:
    """
    A name that came from elsewhere: on its own for the direction of writing, with what would not
    be seen made visible, and cut, with (most of) the whole name in its title.

    >>> name("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    >>> name("abcdef", 4)
    Markup('<bdi class="long" title="abcdef">abc…</bdi>')
    """
    shown = one_line(text)
    if len(shown) <= most and width_of(shown) <= most:
        if max(map(len, shown.split()), default=0) > _UNBROKEN:
            return Markup('<bdi class="long">{}</bdi>').format(shown)
        return Markup("<bdi>{}</bdi>").format(shown)
    title = shown if len(shown) <= _LONGEST_TITLE else shown[:_LONGEST_TITLE] + "…"
    begin = cut(shown[:most + 1], most)[:-1]
    return Markup('<bdi class="long" title="{}">{}…</bdi>').format(title, begin)


def said(text: str) -> Markup:
    """A sentence, in which there may be names: as of `name`, but longer."""
    return name(text, _LONGEST_TEXT)


def label(text: str) -> str:
    """A name for an attribute."""
    return cut(one_line(text)[:_LONGEST_TITLE], 2 * _LONGEST_NAME)


def moment(seconds: float | None) -> Markup:
    """A moment as local time with its zone; "-" where it is not known, or cannot be."""
    try:
        if seconds is None:
            return Markup("-")
        local = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):                # some clock said so
        return Markup("-")
    return Markup('<time datetime="{}">{}</time>').format(
        f"{local:%Y-%m-%dT%H:%M:%S%z}", f"{local:%Y-%m-%d %H:%M:%S %z}")


def bar(share: float, kind: str = "all") -> Markup:
    """A share from 0 to 1 as a bar; what it shows stands beside it as text."""
    percent = f"{100 * max(0.0, min(1.0, share)):.1f}"
    return Markup('<svg class="bar" aria-hidden="true"><rect class="c-{}" width="{}%" '
                  'height="100%"/></svg>').format(kind, percent)


def css() -> str:
    """All rules of the report's page, with its charts, light and dark; for web pages as well."""
    themes = (f":root{{color-scheme:light dark;{style.variables(style.LIGHT)}}}\n"
              f"@media (prefers-color-scheme:dark){{:root{{{style.variables(style.DARK)}}}}}\n"
              f"@media print{{:root{{color-scheme:light;{style.variables(style.LIGHT)}}}}}\n")
    return themes + style.rules() + _file("report.css")


def script() -> str:
    """What adds tooltips to the charts."""
    return _file("report.js")


def _file(file: str) -> str:
    env = environment()
    assert env.loader is not None
    return env.loader.get_source(env, file)[0]
