"""
Templates: autoescape is always on, and names of others can neither be markup nor tear the layout.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iostats.base.errors import sanitize
from iostats.base.text import cut, measure_width
from iostats.report.charts import style

_LONGEST_NAME = 60                  # columns that are shown of a name
_LONGEST_TITLE = 400                # characters of it that its title has
_LONGEST_TEXT = 600                 # columns of a sentence
_UNBROKEN = 24                      # columns of a word that is not broken


@lru_cache(maxsize=1)
def make_environment() -> Environment:
    """The templates of this package, with the filters of this module."""
    environment = Environment(loader=PackageLoader("iostats.report.html"), autoescape=True,
                              undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                              keep_trailing_newline=True)
    environment.filters.update(name=format_name, sentence=format_sentence, moment=format_moment,
                               bar=make_bar,
                               label=wrap_label)
    return environment


def format_name(text: str, limit: int = _LONGEST_NAME) -> Markup:
    """
    Return an untrusted name as markup: isolated in its direction of writing, with invisible
    characters made visible, and cut to `limit`; its title has (most of) the whole name.

    >>> format_name("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    >>> format_name("abcdef", 4)
    Markup('<bdi class="long" title="abcdef">abc…</bdi>')
    """
    shown = sanitize(text)
    if len(shown) <= limit and measure_width(shown) <= limit:
        if max(map(len, shown.split()), default=0) > _UNBROKEN:
            return Markup('<bdi class="long">{}</bdi>').format(shown)
        return Markup("<bdi>{}</bdi>").format(shown)
    title = shown if len(shown) <= _LONGEST_TITLE else shown[:_LONGEST_TITLE] + "…"
    begin = cut(shown[:limit + 1], limit)[:-1]
    return Markup('<bdi class="long" title="{}">{}…</bdi>').format(title, begin)


def format_sentence(text: str) -> Markup:
    """Return a sentence that may contain names as markup, like `name`, but longer."""
    return format_name(text, _LONGEST_TEXT)


def wrap_label(text: str) -> str:
    """A name for an attribute."""
    return cut(sanitize(text)[:_LONGEST_TITLE], 2 * _LONGEST_NAME)


def format_moment(seconds: float | None) -> Markup:
    """A moment as local time with its zone; "-" where it is not known, or cannot be."""
    try:
        if seconds is None:
            return Markup("-")
        local = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):                # some clock sentence so
        return Markup("-")
    return Markup('<time datetime="{}">{}</time>').format(
        f"{local:%Y-%m-%dT%H:%M:%S%z}", f"{local:%Y-%m-%d %H:%M:%S %z}")


def make_bar(share: float, kind: str = "all") -> Markup:
    """Draw a share from 0 to 1 as a bar; its number stands beside it as text."""
    percent = f"{100 * max(0.0, min(1.0, share)):.1f}"
    return Markup('<svg class="bar" aria-hidden="true"><rect class="c-{}" width="{}%" '
                  'height="100%"/></svg>').format(kind, percent)


def load_css() -> str:
    """All rules of the report's page, with its charts, light and dark; for web pages as well."""
    themes = (f":root{{color-scheme:light dark;{style.make_variables(style.LIGHT)}}}\n"
              f"@media (prefers-color-scheme:dark){{:root{{{style.make_variables(style.DARK)}}}}}\n"
              f"@media print{{:root{{color-scheme:light;{style.make_variables(style.LIGHT)}}}}}\n")
    return themes + style.make_rules() + _read_file("report.css")


def load_script() -> str:
    """Return the JavaScript that adds tooltips to the charts."""
    return _read_file("report.js")


def _read_file(file: str) -> str:
    env = make_environment()
    assert env.loader is not None
    return env.loader.get_source(env, file)[0]
