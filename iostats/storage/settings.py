"""
Settings of agents from the description of the cluster's monitoring in etcd (docs/how-to/ldms.md).

    /PREFIX/agents  ->  find_group(): the settings of the first group that has this storage server
        ->  all of them are right?  ->  kept on the disk, and taken at the next sweep's boundary

They stand over site.cfg's, which is what an agent does where there is no etcd, or no group.  Errors
are reported, and the settings in force stay; so they do while etcd is away, and for another agent
of this storage server: [harvest] spool_dir/settings.
"""

from __future__ import annotations

import json

from iostats.base import private_files, strict_json
from iostats.base.errors import StateError, sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.options import RUN_TIME_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Optional, TypedDict

    class AgentGroup(TypedDict):
        name: str
        hosts: list[str]
        settings: dict[str, str]

    class AgentGroups(TypedDict):
        """The settings by group, as `iostats ldms load` writes them."""

        revision: int
        groups: list[AgentGroup]

    class StoredSettings(TypedDict):
        """The file of load_settings(): GroupSettings, and the etcd that they are of."""

        of: str
        revision: Optional[int]
        group: str
        settings: dict[str, str]

NAME = "settings"                      # in [harvest] spool_dir
_LONGEST_TEXT, _LONGEST_NAME = 1000, 200


class GroupSettings(NamedTuple):
    """The settings that a description has for one storage server."""

    revision: int | None        # of the description; None: there is none in etcd
    group: str                  # its name; "" where no group has this storage server
    settings: dict[str, str]    # {"section.key": its text, as in site.cfg}


NOTHING = GroupSettings(None, "", {})


class WrongSettings(ValueError):
    """
    Settings that cannot be used; one line.

    Attributes:
        revision: of the description; None if unknown.
    """

    def __init__(self, text: str, revision: int | None = None) -> None:
        super().__init__(text)
        self.revision = revision


def find_group(document: bytes | None, node: str) -> GroupSettings:
    """
    Find the GroupSettings of the storage server `node` in the value of etcd's key `agents`;
    WrongSettings.

    >>> find_group(b'{"revision": 23, "groups": [{"name": "oss", "hosts": ["oss1"], "settings": '
    ...          b'{"harvest.interval": "10"}}]}', "oss1")
    GroupSettings(revision=23, group='oss', settings={'harvest.interval': '10'})
    """
    if document is None:
        return NOTHING
    revision: int | None = None
    try:
        description: AgentGroups = strict_json.loads(document)
        revision = description["revision"]
        if type(revision) is not int:
            revision = None
            raise ValueError("revision: expected a number")
        names = {node, node.partition(".")[0]}
        group = next((listed for listed in description["groups"] if names & set(listed["hosts"])),
                     None)
        if group is None:
            return GroupSettings(revision, "", {})
        name, settings = group["name"], group["settings"]
        if not isinstance(name, str) or not isinstance(settings, dict):
            raise ValueError("expected a name and settings")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise WrongSettings("expected what `iostats ldms load` wrote, got "
                            f"{sanitize(repr(document[:60]))}", revision) from None
    check_values(settings, revision)
    return GroupSettings(revision, sanitize(name)[:_LONGEST_NAME], settings)


def check_values(settings: Mapping[str, object], revision: int | None = None) -> dict[str, object]:
    """Return {"section.key": value} of these texts; WrongSettings at the first wrong one."""
    values = {}
    for name, text in settings.items():
        shown = sanitize(str(name))[:_LONGEST_NAME]
        option = RUN_TIME_OPTIONS.get(name)
        if option is None:
            raise WrongSettings(f"{shown}: expected one of {' '.join(RUN_TIME_OPTIONS)}", revision)
        try:
            if not isinstance(text, str) or len(text) > _LONGEST_TEXT or not text.isprintable():
                raise ValueError
            values[name] = option.check(text)
        except ValueError:
            raise WrongSettings(f"{shown}: expected {option.expected}, got "
                                f"{sanitize(repr(text))[:100]}", revision) from None
    return values


def load_settings(path: str, place: str) -> GroupSettings:
    """
    Return the stored settings of the etcd `place`; NOTHING if there are none.  StateError if
    damaged.
    """
    try:
        stored: StoredSettings = strict_json.loads(private_files.read_text(path).encode("latin-1"))
        if stored["of"] != place:
            return NOTHING
        group_settings = GroupSettings(stored["revision"], stored["group"], stored["settings"])
        if not isinstance(group_settings.group, str) or not (
                group_settings.revision is None or type(group_settings.revision) is int):
            raise ValueError("revision or group")
        check_values(group_settings.settings)
        return group_settings
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StateError(f"{path}: expected the settings that an agent stored, got something else "
                         f"({sanitize(repr(error))[:100]})") from None


def store_settings(path: str, place: str, settings: GroupSettings) -> None:
    """Store the settings of the etcd `place`; OSError."""
    private_files.write_atomically(path, json.dumps(
        {"of": place, **settings._asdict()}, separators=(",", ":")).encode())
