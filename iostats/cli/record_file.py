"""Records of jobs from a file, as `iostats report --format json` and --json write them."""

from __future__ import annotations

import contextlib
import json

from iostats.base import strict_json
from iostats.base.errors import IostatsError, StateError, UsageError
from iostats.base.input_files import content_of, name_of
from iostats.report.newer_release import as_known
from iostats.report.record_check import negative_in
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MEMBERS = (("job", dict), ("coverage", dict), ("file_systems", list))
_MOST_BYTES = 64 << 20          # 30 MB are a job of 10,000 nodes on 3 file systems of 1,000 OSTs


def is_named(text: str) -> bool:
    """Whether what stands for a job is a file's name: with a "/", ".json" at its end, or "-"."""
    return text == "-" or "/" in text or text.endswith(".json")


def records_in(path: str) -> list[Record]:
    """[Record] of a file, as far as this release knows them; as `forms_in`."""
    found = forms_in(path)
    with form_checked(name_of(path)):
        return list(map(as_known, found))


def forms_in(path: str) -> list[dict[str, Any]]:
    """
    The records of a file as JSON has them: one object, several one after the other, or an array of
    them; "-" is standard input.  UsageError where it cannot be read, or has something else in it.
    """
    name = name_of(path)
    data = content_of(path, _MOST_BYTES, "a record")
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{name}: too large: more than {_MOST_BYTES >> 20} MiB of records; give "
                         f"fewer at once")
    try:
        text = data.decode("utf-8-sig")
        del data
        found = list(_documents(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: expected records as `iostats report --format json` writes them, "
                         f"got no JSON: {error}") from None
    for one in found:
        if not isinstance(one, dict) or not all(isinstance(one.get(member), kind) for member, kind
                                                in _MEMBERS):
            raise UsageError(f"{name}: expected records as `iostats report --format json` writes "
                             f"them, got {json.dumps(one)[:60]}")
        negative = negative_in(one, text)
        if negative:
            raise UsageError(f"{name}: {negative[:200]}, expected no number below 0 there")
    if not found:
        raise UsageError(f"{name}: there is no record in it")
    return found


def _documents(text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other; those of arrays apart."""
    decoder, at = strict_json.decoder(), 0
    while True:
        at += len(text[at:at + 4096]) - len(text[at:at + 4096].lstrip())
        if at >= len(text):
            return
        if text[at].isspace():
            continue
        found, at = decoder.raw_decode(text, at)
        yield from found if isinstance(found, list) else [found]


@contextlib.contextmanager
def form_checked(name: str) -> Iterator[None]:
    """In this block: StateError where a record of the file is not of a form that can be shown."""
    try:
        yield
    except (IostatsError, OSError, ImportError):
        raise
    except Exception as error:              # also those of the libraries that make pages of it
        raise StateError(f"{name}: a record in it cannot be shown by this release of iostats "
                         f"({error!r:.200})") from None
