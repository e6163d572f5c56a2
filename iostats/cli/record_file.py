"""
Records of jobs from a file, as written by `iostats report --format json` and --json.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from iostats.base import strict_json
from iostats.base.errors import IostatsError, StateError, UsageError, sanitize
from iostats.base.input_files import format_input_name, read_input
from iostats.report.newer_release import read_known
from iostats.report.record_check import find_negative, find_wrong_type
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_MEMBERS = (("job", dict), ("coverage", dict), ("file_systems", list))
_MAX_BYTES = 64 << 20           # 30 MB are a job of 10,000 nodes on 3 file systems of 1,000 OSTs


def is_file_name(text: str) -> bool:
    """Whether a JOB argument is the name of a file: with a "/", ".json" at its end, or "-"."""
    return text == "-" or "/" in text or text.endswith(".json")


def read_records(path: str) -> list[Record]:
    """Return [Record] of a file, as far as this release knows them; as `read_json_records`."""
    forms = read_json_records(path)
    with check_format(format_input_name(path), forms):
        return list(map(read_known, forms))


def read_json_records(path: str) -> list[dict[str, object]]:
    """
    The records of a file as JSON: one object, several one after the other, or an array of them; "-"
    is standard input. UsageError if it cannot be read, or has anything else in it.
    """
    name = format_input_name(path)
    data = read_input(path, _MAX_BYTES, "a record")
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{name}: too large: more than {_MAX_BYTES >> 20} MiB of records; give "
                         f"fewer at once")
    try:
        text = data.decode("utf-8-sig")
        del data
        forms = list(_parse_documents(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: expected records as `iostats report --format json` writes them, "
                         f"got no JSON: {error}") from None
    for form in forms:
        if not isinstance(form, dict) or not all(isinstance(form.get(member), kind) for member, kind
                                                 in _MEMBERS):
            raise UsageError(f"{name}: expected records as `iostats report --format json` writes "
                             f"them, got {json.dumps(form)[:60]}")
        negative = find_negative(form, text)
        if negative:
            raise UsageError(f"{name}: {negative[:200]}, expected no number below 0 there")
    if not forms:
        raise UsageError(f"{name}: there is no record in it")
    return forms


def _parse_documents(text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other; the items of arrays one by one."""
    decoder, at = strict_json.make_decoder(), 0
    while True:
        at += len(text[at:at + 4096]) - len(text[at:at + 4096].lstrip())
        if at >= len(text):
            return
        if text[at].isspace():
            continue
        document, at = decoder.raw_decode(text, at)
        yield from document if isinstance(document, list) else [document]


@contextlib.contextmanager
def check_format(name: str, records: Iterable[object]) -> Iterator[None]:
    """A context: StateError if one of the file's `records` cannot be shown."""
    try:
        yield
    except (IostatsError, OSError, ImportError):
        raise
    except Exception as error:              # also errors of the libraries that make pages
        why = next(filter(None, map(find_wrong_type, records)), "")
        if why:
            raise StateError(f"{name}: {sanitize(why)}") from None
        raise StateError(f"{name}: a record in it cannot be shown by this release of iostats "
                         f"({error!r:.200})") from None
