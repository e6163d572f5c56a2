"""
iostats ldms load: make a description valid.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.base.input_files import name_of
from iostats.cli.ldms.sources import ETCD_HELP, ETCD_OPTIONS, described, etcd_of, who
from iostats.cli.parser import parser, put_out, say, status_of
from iostats.ldms.changes import changes
from iostats.ldms.description.problems import DescriptionError
from iostats.ldms.description.read import description
from iostats.ldms.description_file import text_of
from iostats.ldms.published import descriptions
from iostats.ldms.published.descriptions import NotPublished
from iostats.ldms.statements import configuration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.etcd.client import Etcd
    from iostats.ldms.description.normal import Description
    from iostats.ldms.published.descriptions import Revision

HELP = f"""\
usage: iostats ldms load FILE [--note TEXT] [--dry-run] [--etcd URL,URL]
                         [--prefix NAME] [--config FILE]

Put a description into etcd, where `iostats ldms run` and the agents of storage
servers take it from.  It becomes valid at once and as a whole; what is
different from the one before is printed.  Where another was loaded meanwhile,
nothing is.

options:
  --dry-run        print what is different, and load nothing
  --note TEXT      why, for `iostats ldms history`
{ETCD_HELP}\
  -h, --help       this text

exit status:
  0 loaded, or the same already   1 the description is wrong, or was not loaded
  2 bad usage or site.cfg   3 etcd was not reached
"""


def main(arguments: list[str] | None = None) -> int:
    """Load a description; the exit status."""
    return status_of(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    taken = parser("iostats ldms load", HELP, ("--note", *ETCD_OPTIONS), ("--dry-run",))
    taken.add_argument("file")
    options = taken.parse_args(arguments)
    text = text_of(options.file)
    new = described(text, name_of(options.file))
    if new is None:
        return UNREADABLE
    configuration.check(new)
    with etcd_of(options) as etcd:
        return show_and_load(etcd, text, new, options.note or "", options.dry_run)


def show_and_load(etcd: Etcd, text: str, new: Description, note: str, only_shown: bool) -> int:
    """Print what is different, and make `text` valid; the exit status."""
    before, old_text = _valid_one(etcd)
    if before and old_text == text:
        if descriptions.agents_have(etcd, before, new.agents):
            put_out([f"description {before.number} of {etcd.prefix} says the same already; nothing "
                     f"to load\n"])
            return DONE
        lines = [f"nothing but what storage servers' agents are told: {etcd.key('agents')} is not "
                 f"of description {before.number}"]
    else:
        old = None if before is None or old_text is None else _old(old_text, before.number)
        lines = changes(old, new) or ["nothing but its text is different"]
    put_out(f"{line}\n" for line in lines)
    if only_shown:
        return DONE
    made = descriptions.load(etcd, text, new.agents, before, by=who(), note=note)
    put_out([f"description {made.number} of {etcd.prefix} is valid\n"])
    return DONE


def _valid_one(etcd: Etcd) -> tuple[Revision | None, str | None]:
    """The valid description's Revision and text; a text that etcd has no longer is replaced."""
    try:
        return descriptions.read_current(etcd) or (None, None)
    except NotPublished as error:
        before = descriptions.current(etcd)
        say(f"{error}; all of the new one is shown")
        return before, None


def _old(text: str, number: int) -> Description | None:
    try:
        return description(text, f"description {number}")[0]
    except DescriptionError as error:
        say(f"{error}; all of the new one is shown")
        return None
