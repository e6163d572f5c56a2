"""
The commands of `iostats`: the overview of `iostats --help`, and which module runs each.
"""

from __future__ import annotations

from iostats.cli import OF_NODES

# ((command and what follows it, what it is for), ...)
OVERVIEW = (
    ("run [options] -- COMMAND ...", "one command, measured on all nodes"),
    ("report [options] JOB ...", "what finished jobs did"),
    ("diff [options] A B", "what changed between two jobs"),
    ("why [options] JOB", "where a job's time went"),
    ("jobs [options]", "a line for each job, as sacct"),
    ("top [options]", "who loads the file systems now"),
    ("nodes [options] [NODES]", "what each compute node did"),
    ("events [options]", "what went wrong, when and where"),
    ("capacity [options]", "how full the targets are"),
    ("targets [options]", "their requests, grants, threads"),
    ("quota [options]", "who is near a quota"),
    ("query LEVEL [options]", "what storage servers counted"),
    ("start|stop|show [options]", "on a node; as iostats_client.py"),
    ("doctor [options]", "what is in the way here; likewise"),
    ("harvest [SERVER [FS ...]]", "on a storage server; likewise"),
    ("server [options]", "as iostats_server.py"),
    ("collector [options]", "events for monitors, by XML-RPC"),
    ("web [options]", "pages of jobs, nodes, events"),
    ("ldms SUBCOMMAND [options]", "one file describes LDMS and agents"),
    ("config [options]", "what is in force, and why"),
    ("store [options]", "check the site's store, rebuild it"),
    ("import FILE ...", "old jobs, from jobHarvest's points"),
    ("mail -s SUBJECT ADDRESS", "Slurm's MailProg, with the report"),
)
# Commands with a module of another name: {command: module with main()}; LDMS need not be installed.
_OTHER_MODULES = {"ldms": "iostats_ldms.cli", "import": "iostats.cli.import_jobs"}


def list_modules() -> dict[str, str]:
    """Return {command: module with main()} of the commands that nodes do not have."""
    commands = [words.split()[0] for words, _ in OVERVIEW]
    return {command: _OTHER_MODULES.get(command, f"iostats.cli.{command}")
            for command in commands if command.partition("|")[0] not in OF_NODES}


def format_overview() -> str:
    """The text of `iostats --help`."""
    lines = "".join(f"{'' if number else 'usage:':<7}iostats {words:<31}{meaning}\n"
                    for number, (words, meaning) in enumerate(OVERVIEW))
    return f"""\
{lines}
`iostats JOB` is `iostats report JOB`.  Each subcommand has --help;
`iostats --version` prints the version and the commit.
"""


def suggest_command(word: str) -> str:
    """Return `: did you mean ...?` for an unknown command, or ""."""
    from difflib import get_close_matches
    commands = list_modules()
    if word in commands:
        return f": did you mean `iostats {word}`?"
    matches = get_close_matches(word.lower(), (*commands, *OF_NODES), 2, 0.6)
    names = [f"`iostats {name}`" if name in commands else f"`{name}`" for name in matches]
    return f": did you mean {' or '.join(names)}?" if matches else ""
