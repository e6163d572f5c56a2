"""
What an agent does, as the description of the cluster's monitoring has it in etcd (docs/ldms.md).

    /PREFIX/agents  ->  group_of(): the settings of the first group that has this storage server
        ->  all of them are right?  ->  kept on the disk, and taken at the next sweep's boundary

They stand over site.cfg's, which is what an agent does where there is no etcd, or no group.  What
is wrong is told, and what was in force stays; so it does while etcd is away, and for another agent
of this storage server: [harvest] spool_dir/settings.
"""

from __future__ import annotations

import json
from collections import namedtuple

from iostats.base import private_files, strict_json
from iostats.base.errors import StateError, one_line
from iostats.base.options import RENAMED, RUN_TIME_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NAME = "settings"                      # in [harvest] spool_dir
_LONGEST_TEXT, _LONGEST_NAME = 1000, 200

GroupSettings = namedtuple("GroupSettings", "revision group settings")
GroupSettings.__doc__ = """
What the description has for one storage server.

Attributes:
    revision: of the description; None: there is none in etcd.
    group: its name; "" where no group has this storage server.
    settings: {"section.key": its text, as in site.cfg}.
"""

NOTHING = GroupSettings(None, "", {})


class WrongSettings(ValueError):
    """
    They cannot be used; one line.

    Attributes:
        revision: of the description; None where it is not known.
    """

    def __init__(self, text: str, revision: int | None = None) -> None:
        super().__init__(text)
        self.revision = revision


def group_of(document: bytes | None, node: str) -> GroupSettings:
    """
    The GroupSettings of the storage server `node` in what etcd has at `agents`; WrongSettings.

    >>> group_of(b'{"revision": 23, "groups": [{"name": "oss", "hosts": ["oss1"], "settings": '
    ...          b'{"harvest.interval": "10"}}]}', "oss1")
    GroupSettings(revision=23, group='oss', settings={'harvest.interval': '10'})
    """
    if document is None:
        return NOTHING
    revision = None
    try:
        found = strict_json.loads(document)
        revision = found["revision"]
        if type(revision) is not int:
            revision = None
            raise ValueError("revision: expected a number")
        names = {node, node.partition(".")[0]}
        group = next((one for one in found["groups"] if names & set(one["hosts"])), None)
        if group is None:
            return GroupSettings(revision, "", {})
        name, settings = group["name"], group["settings"]
        if not isinstance(name, str) or not isinstance(settings, dict):
            raise ValueError("expected a name and settings")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise WrongSettings("expected what `iostats ldms load` wrote, got "
                            f"{one_line(repr(document[:60]))}", revision) from None
    values_of(settings, revision)
    return GroupSettings(revision, one_line(name)[:_LONGEST_NAME], settings)


def values_of(settings: Mapping[str, Any], revision: int | None = None) -> dict[str, Any]:
    """{"section.key": value} of such texts; WrongSettings at the first one that is wrong."""
    found = {}
    for name, text in settings.items():
        shown = one_line(str(name))[:_LONGEST_NAME]
        if isinstance(text, str) and name in RENAMED:
            name, as_new = RENAMED[name]
            text = as_new(text) if as_new else text
        option = RUN_TIME_OPTIONS.get(name)
        if option is None:
            raise WrongSettings(f"{shown}: expected one of {' '.join(RUN_TIME_OPTIONS)}", revision)
        try:
            if not isinstance(text, str) or len(text) > _LONGEST_TEXT or not text.isprintable():
                raise ValueError
            found[name] = option.check(text)
        except ValueError:
            raise WrongSettings(f"{shown}: expected {option.expected}, got "
                                f"{one_line(repr(text))[:100]}", revision) from None
    return found


def kept_at(path: str, place: str) -> GroupSettings:
    """
    What was kept, of the etcd `place`; NOTHING where none was.  StateError where it is damaged.
    """
    try:
        found = strict_json.loads(private_files.read_text(path).encode("latin-1"))
        if found["of"] != place:
            return NOTHING
        kept = GroupSettings(found["revision"], found["group"], found["settings"])
        if not isinstance(kept.group, str) or not (
                kept.revision is None or type(kept.revision) is int):
            raise ValueError("revision or group")
        values_of(kept.settings)
        return kept
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StateError(f"{path}: expected the settings that an agent kept, got something else "
                         f"({one_line(repr(error))[:100]})") from None


def keep_at(path: str, place: str, settings: GroupSettings) -> None:
    """Keep them, of the etcd `place`; OSError."""
    private_files.write_whole(path, json.dumps(
        {"of": place, **settings._asdict()}, separators=(",", ":")).encode())
