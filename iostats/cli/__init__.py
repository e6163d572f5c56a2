"""
The commands: each reads its command line, calls the rooms that do the work, and ends with an exit
status.

An option is declared once, in the class of its command: the parser and `--help` are made from it,
and docs/reference/commands.md, man pages and completions from `--help`.

    class StoreOptions(Options, help="usage: iostats store [options] ..."):
        rebuild = flag("--rebuild", "set a damaged store aside")        bool
        file = option("--file FILE", "check this store")                str; None without it
        nodes = repeated("--node NODES", "of these nodes")              list[str]
        targets = operands("TARGET", "such as scratch-OST0007")         list[str]

In `help` a line {options} stands for the lines of all options of this group.  All this is here, and
without argparse, because of what a node's `start` takes to import (benchmarks/README.md).
"""

from __future__ import annotations

from iostats.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The commands of nodes, which iostats_client.py has, too; commands.py has the others.
OF_NODES = ("start", "mark", "watch", "stop", "show", "doctor", "prolog", "epilog", "deliver",
            "harvest", "events")
_INDENT, _WIDTH = 24, 80        # of the meanings, and of the whole


class CommandOption:
    """
    An option, or an operand, which has no names.

    Attributes:
        declared: as in the help, "-j, --job JOB".
        aliases: names that are accepted, and in no help, with spaces between.
        bare: the value of an option without one.
    """

    __slots__ = ("aliases", "bare", "declared", "default", "group", "help")

    def __init__(self, declared: str, default: object, help: str, group: str = "options",
                 aliases: str = "", bare: str = "") -> None:
        self.declared, self.default, self.help, self.group = declared, default, help, group
        self.aliases, self.bare = aliases, bare

    def list_names(self) -> list[str]:
        """Return ["-j", "--job"] of "-j, --job JOB"."""
        return [word.rstrip(",") for word in self.declared.split(" ") if word.startswith("-")]

    def find_value(self) -> str:
        """Return "JOB" of "-j, --job JOB"; "" of a flag."""
        return " ".join(self.declared.split(" ")[len(self.list_names()):])


# Type checkers see the type of the value, as with dataclasses.field.

def flag(declared: str, help: str, group: str = "options", aliases: str = "") -> bool:
    """Declare an option without a value."""
    # The parser puts the value in its place.
    return CommandOption(declared, False, help, group, aliases)  # type: ignore[return-value]


def option(declared: str, help: str, group: str = "options", aliases: str = "",
         bare: str = "") -> str | None:
    """Declare an option with a value, in [] if it may be left out: then it is `bare`."""
    # The parser puts the value in its place.
    return CommandOption(declared, None, help, group, aliases, bare)  # type: ignore[return-value]


def repeated(declared: str, help: str, group: str = "options", aliases: str = "") -> list[str]:
    """Declare an option that may be repeated; or one with several values, as FILE [FILE]."""
    # The parser puts the value in its place.
    return CommandOption(declared, [], help, group, aliases)  # type: ignore[return-value]


def operands(declared: str, help: str = "", group: str = "options") -> list[str]:
    """Declare the arguments that are no options."""
    # The parser puts the value in its place.
    return CommandOption(declared, [], help, group)  # type: ignore[return-value]


def operand(declared: str, default: str | None = None) -> str:
    """Declare a single argument that is no option; None: it is required."""
    # The parser puts the value in its place.
    return CommandOption(declared, default, "")  # type: ignore[return-value]


CONFIG = option("--config FILE", "the configuration (default: site.cfg, and ~/.iostats/site.cfg)")


class Options:
    """The options of a command: a subclass declares them, its instance has the values."""

    HELP = ""

    def __init_subclass__(cls, help: str = "") -> None:
        cls.HELP = help

    @classmethod
    def list_declared(cls) -> dict[str, CommandOption]:
        """Return {attribute: CommandOption}; what is declared again has the place of the base's."""
        declared: dict[str, CommandOption] = {}
        for base in cls.__mro__:
            for name, option in vars(base).items():
                if isinstance(option, CommandOption):
                    declared.pop(name, None)
                    declared[name] = getattr(cls, name)
        return declared

    @classmethod
    def find_names(cls) -> dict[str, bool]:
        """Return {name of an option: whether it takes a value}."""
        return {name: option.default is not False for option in cls.list_declared().values()
                for name in option.list_names()}

    @classmethod
    def list_help_names(cls) -> list[str]:
        """The names of --help: -h may be another option's."""
        used = cls.find_names()
        return [name for name in ("-h", "--help") if name not in used]

    @classmethod
    def format_help(cls) -> str:
        """The text of --help."""
        groups = {"options": ""}
        for option in cls.list_declared().values():
            lines = groups.setdefault(option.group, "")
            if option.help:
                groups[option.group] = lines + format_entry(option.declared, option.help)
        groups["options"] += format_entry(", ".join(cls.list_help_names()), "this text")
        text = cls.HELP
        for group, lines in groups.items():
            text = text.replace(f"{{{group}}}\n", lines)
        return text


def format_entry(name: str, meaning: str) -> str:
    """Return the lines of an entry in a help."""
    lines = [f"  {name}".ljust(_INDENT)]
    if not lines[0].endswith("  "):
        lines.append(" " * _INDENT)
    for word in meaning.split():
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append(" " * _INDENT)
        lines[-1] += f"{word} "
    return "".join(f"{line.rstrip()}\n" for line in lines)


def take_option(word: str, remaining: list[str],
                takes_value: Mapping[str, bool]) -> tuple[str, str]:
    """
    Return (name, value, or "yes" for a flag) of the option `word`, --name VALUE, --name=VALUE or
    --flag; UsageError.

    A value in a word of its own is taken from `remaining`, the words after it.  `takes_value`: of
    Options.find_names().
    """
    name, equals, value = word.partition("=")
    if takes_value.get(name):
        if not equals:
            if not remaining:
                raise UsageError(f"{name}: expected a value after it (see --help)")
            value = remaining.pop(0)
        return name, value
    if word not in takes_value:
        raise UsageError(f"no option {word!r}; there are: {' '.join(takes_value)} (see --help)")
    return word, "yes"
