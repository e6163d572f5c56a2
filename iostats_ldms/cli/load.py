"""
iostats ldms load: make a description valid.
"""

from __future__ import annotations

from iostats.base.errors import DONE, UNREADABLE
from iostats.base.input_files import format_input_name
from iostats.base.messages import print_message
from iostats.cli import flag, operand, option
from iostats.cli.parser import parse_options, run_role, write_output
from iostats.etcd.client import Etcd
from iostats_ldms import published
from iostats_ldms.cli.sources import (
    EtcdOptions,
    find_current_user,
    open_etcd_by_options,
    parse_description,
)
from iostats_ldms.description.changes import describe_changes
from iostats_ldms.description.model import Description
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_description, read_text
from iostats_ldms.published import DescriptionUnavailable, Revision
from iostats_ldms.statements import configuration


class LoadOptions(EtcdOptions, help="""\
usage: iostats ldms load FILE [options]

Store a description in etcd, where `iostats ldms run` and the agents of storage
servers read it.  It becomes valid at once and as a whole; the differences from
the previous one are printed.  If another one was loaded in between, nothing is
loaded.

options:
{options}

exit status:
  0 loaded, or identical   1 the description is invalid, or was not loaded
  2 bad usage or site.cfg   3 etcd was not reached
"""):
    file = operand("FILE")
    dry_run = flag("--dry-run", "print the differences, and load nothing")
    note = option("--note TEXT", "the reason, for `iostats ldms history`")


def main(arguments: list[str] | None = None) -> int:
    """Load a description; the exit status."""
    return run_role(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> int:
    options = parse_options(LoadOptions, arguments)
    text = read_text(options.file)
    new = parse_description(text, format_input_name(options.file))
    if new is None:
        return UNREADABLE
    configuration.check_description(new)
    with open_etcd_by_options(options) as etcd:
        return show_and_load(etcd, text, new, options.note or "", options.dry_run)


def show_and_load(etcd: Etcd, text: str, new: Description, note: str, only_shown: bool) -> int:
    """Print the differences and make `text` valid; the exit status."""
    before, old_text = _read_valid(etcd)
    if before and old_text == text:
        if published.are_agents_current(etcd, before, new.agents):
            write_output([f"description {before.number} of {etcd.prefix} is identical; nothing "
                          f"to load\n"])
            return DONE
        lines = [f"only the settings of agents differ: {etcd.key('agents')} is not "
                 f"from description {before.number}"]
    else:
        old = None if before is None or old_text is None else _parse_previous(old_text,
                                                                              before.number)
        lines = describe_changes(old, new) or ["only the text differs"]
    write_output(f"{line}\n" for line in lines)
    if only_shown:
        return DONE
    made = published.load(etcd, text, new.agents, before, by=find_current_user(), note=note)
    write_output([f"description {made.number} of {etcd.prefix} is valid\n"])
    return DONE


def _read_valid(etcd: Etcd) -> tuple[Revision | None, str | None]:
    """Read the valid Revision and its text; (Revision, None) if the text is incomplete."""
    try:
        return published.read_current_description(etcd) or (None, None)
    except DescriptionUnavailable as error:
        before = published.read_current_revision(etcd)
        print_message(f"{error}; showing all of the new description")
        return before, None


def _parse_previous(text: str, number: int) -> Description | None:
    try:
        return read_description(text, f"description {number}")[0]
    except DescriptionError as error:
        print_message(f"{error}; showing all of the new description")
        return None
