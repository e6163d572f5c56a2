"""
A site's choices: site.cfg, in four places, the later one wins.

    1. /etc/iostats/site.cfg, or else that in the scripts' directory      the system's
    2. ~/.iostats/site.cfg                                                the user's own
    3. IOSTATS_SECTION_KEY=value in the environment                       IOSTATS_SERVER_HOST=..
    4. the command line

`--config FILE` stands for 1 and 2.  The form is ini: "[section]", "key = value", and lines
that begin with "#" or ";" are comments.  Nodes read it at every job start, where `configparser`
would cost as much as a bare interpreter, so it is read here, in a few lines.

An error message names the file, the line, the section, the key, and what is allowed.  Keys that
were renamed (RENAMED) are accepted, and noted with the new name.

The options of a sink are in its module, which nodes do not import: the keys of its section are kept
as text until `add_section` brings the options that check them.

Long because: each node imports it, so that the table of keys and the reading are one module.
"""

from __future__ import annotations

import os
from collections import namedtuple

from iostats.base.errors import ConfigError
from iostats.base.private_files import read_text

LONGEST_PAUSE_S = 3600          # between two sweeps; job_stats forget after 600 s by default

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Option = namedtuple("Option", "default check expected help")
Option.__doc__ = """
One choice.

Attributes:
    default: as it would stand in site.cfg.
    check: text -> value, raising ValueError.
    expected: what is allowed, for the error message.
    help: for site.cfg and the documentation.
"""

FORMATS = ("grid", "plain", "json", "csv", "markdown")
UNITS = ("binary", "decimal", "bytes")


def printable(value: str) -> str:
    """A check: any text in one line of printable characters."""
    if not value.isprintable():
        raise ValueError
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError
    return printable(value)


def _integer(low: int, high: int) -> Callable[[str], int]:
    def check(value: str) -> int:
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            raise ValueError
        return int(value)
    return check


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds <= 1e7:
        raise ValueError
    return seconds


def _words_of(*choices: str) -> Callable[[str], list[str]]:
    def check(value: str) -> list[str]:
        if not set(value.split()) <= set(choices):
            raise ValueError
        return value.split()
    return check


def _ways(value: str) -> list[str]:
    words = value.split()
    if not words or len(set(words)) < len(words) or not set(words) <= {"secret", "munge"}:
        raise ValueError
    return words


def choice(default: str, choices: Sequence[str], help: str) -> Option:
    """An Option that has one of these values."""
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError
        return value
    return Option(default, check, f"{', '.join(choices[:-1])} or {choices[-1]}", help)


def number(low: int, high: int, default: int, help: str) -> Option:
    """An Option that is an integer."""
    return Option(str(default), _integer(low, high), f"a number from {low} to {high}", help)


def duration(default: float, help: str) -> Option:
    """An Option that is a time in seconds."""
    return Option(str(default), _seconds, "seconds, from 0 to 10000000", help)


def absolute_path(default: str, what: str, help: str) -> Option:
    """A path of a service or a hook: it must be absolute, since their directory is not defined."""
    return Option(default, _absolute, f"{what} whose path begins with /", help)


DEFAULT = "the default"              # the origin of a value that no place sets

OPTIONS = {
    "node.state_dir": Option("", printable, "a directory", (
        "Where `start` keeps its snapshot until `stop`, and a job's server what it has counted "
        "until its report is written; it must be the user's own.  Empty: a private directory with "
        "a name that others cannot guess, below /tmp.")),
    "node.job_id_variables": Option(
        "SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID FLUX_JOB_ID COBALT_JOBID", str.split,
        "names of environment variables", (
        "Where the job id is looked for; the first one set.  Where this is not changed, any batch "
        "system that iostats knows is asked for it after these.")),
    "node.file_systems": Option("", str.split, "names of file systems, or globs of them", (
        "File systems whose counters are read, such as scratch snx1100*.  Empty: all.")),
    "node.retry_timeout": duration(60, (
        "How long `stop` tries to reach the server, with growing pauses; after that it keeps the "
        "delta for a later `stop`.")),
    "node.reader": Option("/run/iostats/reader.sock", printable, "a socket", (
        "The socket of the reader, which gives ordinary users the counters that only root may "
        "read.  It is asked when a counter file may not be read.  Empty: never.")),
    "node.public_dir": Option("/run/iostats/start", printable, "a directory", (
        "Where root's `start --public` keeps a snapshot that the job's user can use but not "
        "change.")),
    "node.python": Option("python3", printable, "a command", (
        "Python 3.9 or newer on the nodes, for `iostats run`.")),
    "node.hook_dir": absolute_path("/var/lib/iostats/node", "a directory", (
        "Where prolog and epilog keep the starts of a node's jobs, and the reports that wait for "
        "the site's server; owned by root, on the node's own disk.")),
    "node.hook_timeout": duration(0.9, (
        "Prolog and epilog end after this time, whether they are finished or not.")),
    "server.host": Option("", printable, "a host name", (
        "Where the job's server runs; stop --server.")),
    "server.port_first": number(1, 65535, 20000, (
        "First of the ports that job ids are mapped to; keep them out of the kernel's "
        "ephemeral ports (sysctl net.ipv4.ip_local_port_range).")),
    "server.port_last": number(1, 65535, 29999, "Last of these ports."),
    "server.port_tries": number(1, 1000, 16, (
        "How many ports are tried when a job's first port is in use by another program.")),
    "server.deadline": duration(60, (
        "How long the server waits for the other nodes after the first `stop`.")),
    "server.max_message_bytes": number(1024, 1 << 30, 16 << 20, (
        "A larger message is refused unread.")),
    "server.max_nodes": number(1, 10_000_000, 100_000, (
        "A job may have up to this number of nodes; reports of more are refused.")),
    "server.max_connections": number(16, 1_000_000, 20_000, (
        "From this number of open connections on, idle ones are closed early.")),
    "server.idle_timeout": duration(10, (
        "A connection on which no complete message arrives for this time is closed.")),
    "server.clock_tolerance": duration(300, (
        "A message is refused as stale when its time differs more than this from the server's.")),
    "server.auth": Option("secret", _ways, "secret or munge, or both, the preferred one first", (
        "How nodes and server authenticate each other.  secret: by the job's secret, in a "
        "directory that they share.  munge: by munged, which runs on each of them; a server then "
        "accepts messages of its own user and of root only.  With both, a node uses the first "
        "that works, and a server accepts either.")),
    "server.munge_socket": Option("", printable, "a socket", (
        "The socket of munged.  Empty: munge's own default.")),
    "server.munge_users": Option("", str.split, "names or numbers of users", (
        "With munge a node trusts servers of its own user, of root, and of these users.")),
    "batch.system": Option("", printable, "the name of one, such as slurm, or none", (
        "The batch system.  Empty: the one whose job id is in the environment.")),
    "run.output": Option("", printable, "a file", (
        "Where `iostats run` writes its report; %j is the job's id.  Empty: standard error.")),
    "run.start_timeout": duration(30, (
        "`iostats run` waits this long for its nodes to be ready, then starts its command; nodes "
        "that were not ready are missing in the report.")),
    "run.grace": duration(1, (
        "When the batch system ends a job (SIGTERM), its command has this time to end; after "
        "that the nodes read their counters even if it still runs.")),
    "run.deadline": duration(5, (
        "After that the nodes have this time to report; grace and deadline together must be "
        "shorter than the time until SIGKILL (Slurm: KillWait).")),
    "site.host": Option("", printable, "a host name", (
        "Where the site's server runs; all prologs and epilogs report to it.")),
    "site.port": number(1, 65535, 19990, "The port of the site's server."),
    "site.secret": Option("/etc/iostats/site.secret", printable, "a file", (
        "The secret that the site's server and root on the nodes share; the same file on all of "
        "them, readable by root only.")),
    "site.store": absolute_path("/var/lib/iostats/site.sqlite", "a file", (
        "Where the site's server keeps reports and records.")),
    "site.deadline": duration(300, (
        "How long the site's server waits for a job's other nodes after its first epilog, before "
        "it makes the record; later reports are added to it.")),
    "site.keep_reports_days": number(1, 3650, 7, (
        "How many days the nodes' reports are kept; a report that comes later is not added.")),
    "site.keep_days": number(1, 36500, 365, "How many days records are kept."),
    "site.show": Option("", _words_of("output", "home", "comment"),
                        "words out of: output home comment", (
        "Where the site's server shows a job's report.  output: at the end of the job's own output "
        "file.  home: in ~/.iostats/JOB.txt of a user who has that directory.  comment: a short "
        "form in the batch system's accounting, where every user can read it with sacct, unless "
        "slurm.conf and slurmdbd.conf have PrivateData=jobs.")),
    "site.comment_fields": Option("AdminComment", str.split, "names of fields", (
        "Slurm's fields for the short form; the first one that has no text of others is used.")),
    "site.readers": Option("root", str.split, "names of users", (
        "Users who may read all records; others may read their own, where auth is munge.")),
    "site.mail_program": Option("/usr/bin/mail", printable, "a command", (
        "The program with which `iostats mail` sends its mail.")),
    "harvest.job_id": Option("%j", printable, "a form with one %j, such as %j or %j:%u:%H", (
        "The form of job ids in job_stats, as in jobid_name (lctl get_param jobid_name): %j the "
        "job, %e program, %u user, %g group, %H or %h host, %p process.  I/O under an id of "
        "another form is that of (no job): cp.0, kworker.")),
    "harvest.interval": number(0, LONGEST_PAUSE_S, 0, (
        "On storage servers: seconds between two sweeps over job_stats; the same on all of them, "
        "so that they sweep at the same time, and at most a third of job_cleanup_interval.  0: "
        "chosen by the agent.")),
    "harvest.file_systems": Option("", str.split, "names of file systems", (
        "File systems that are harvested.  Empty: all.")),
    "harvest.spool_dir": absolute_path("/var/lib/iostats/harvest", "a directory", (
        "Where sweeps wait for the site's server; on the storage server's own disk.")),
    "harvest.spool_bytes": number(1 << 20, 1 << 40, 64 << 20, (
        "When the waiting sweeps are larger than this, the oldest are dropped.")),
    "harvest.cpu_percent": number(1, 100, 25, (
        "A sweep uses up to this share of one core, on average.")),
    "secret.dir": Option("~/.iostats", printable, "a directory", (
        "Where the server puts the job's secret; a directory that the nodes share.")),
    "report.format": choice("grid", FORMATS, "The form of the tables."),
    "report.units": choice("binary", UNITS, (
        "binary: 1 MiB = 1048576 bytes.  decimal: 1 MB = 1000000 bytes.  bytes: plain numbers.")),
    "report.columns": Option("", str.split, "names of operations", (
        "Operations that the tables show, in this order.  Empty: every operation that happened.")),
    "report.job_fields": Option(
        "", printable, "names of fields, as `iostats jobs -e` lists them", (
        "The fields that `iostats jobs` shows, as for its option -o.  Empty: its default.")),
    "report.file_systems": Option("", str.split, "names of file systems", (
        "File systems that the tables show, in this order.  Empty: all.")),
}

def _of_path(glob: str) -> str:
    """The names of file systems that a glob of the directories of mounts or OSTs stands for."""
    last = glob.rstrip("/").rpartition("/")[2].partition("-OST")[0]
    name, dash, instance = last.rpartition("-")
    is_instance = dash and (instance == "*" or not instance.strip("0123456789abcdef*?"))
    return name if is_instance else last


# Old keys, still accepted: old -> (new, function of the old value's text that returns the new
# one's; None: the text is the same).
RENAMED: dict[str, tuple[str, Callable[[str], str] | None]] = {
    "node.try_for": ("node.retry_timeout", None),
    "node.hook_within": ("node.hook_timeout", None),
    "server.silence": ("server.idle_timeout", None),
    "run.start_within": ("run.start_timeout", None),
    "harvest.every": ("harvest.interval", None),
    "node.mdc_path": ("node.file_systems", _of_path),
    "node.osc_path": ("node.file_systems", _of_path),
}

# Sections whose keys a site makes up: file system = its name in tables.
FREE_SECTIONS = {"labels": "What the tables call a file system: snx11001 = BW Home"}

_SINKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sinks")
BESIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "site.cfg")


class Config(dict):  # type: ignore[type-arg]     # dict[str, Any]; Any is not there at run time
    """
    The values that apply: "section.key" -> value.

    Attributes:
        origin: "section.key" -> where the value came from, in words.
        labels: file system -> its name in tables.
        files: paths of the files that were read.
        notes: a line for each old key that was read.
        options: "section.key" -> Option; those of a sink are there after `add_section`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._environ = environ or {}
        self.origin: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.files: list[str] = []
        self.notes: list[str] = []
        self.options = OPTIONS
        self._later: dict[str, list[tuple[str, str, str]]] = {}     # section: key, text, where
        for name in OPTIONS:
            self.take(name, OPTIONS[name].default, DEFAULT)

    def take(self, name: str, text: str, where: str) -> None:
        """Take `text` as the value of `name`, also an old one; ConfigError names `where`."""
        section, _, key = name.partition(".")
        if name in RENAMED:
            name, as_new = RENAMED[name]
            if as_new:
                if not text:
                    return
                text = as_new(text)
            self.notes.append(f"{where}: [{section}] {key} is an old key: write "
                              f"{name.partition('.')[2]} = {text}".rstrip())
        option = self.options[name]
        try:
            self[name] = option.check(text)
        except ValueError:
            raise ConfigError(f"{where}: [{section}] {key}: expected {option.expected}, "
                              f"got {text!r}") from None
        self.origin[name] = where

    def take_later(self, section: str, key: str, text: str, where: str) -> None:
        """Keep what was read for a section whose options are not known yet."""
        self._later.setdefault(section, []).append((key, text, where))

    def add_section(self, section: str, options: Mapping[str, Option]) -> None:
        """
        Add {key: Option} of a section, and check what was read for it; once.

        Raises ConfigError.
        """
        if f"{section}.{next(iter(options))}" in self.options:
            return
        self.options = {**self.options,
                        **{f"{section}.{key}": option for key, option in options.items()}}
        for key, option in options.items():
            self.take(f"{section}.{key}", option.default, "the default")
        for key, text, where in self._later.pop(section, ()):
            _take(self, f"{section}.{key}", text, where)
        for key in options:
            variable = _variable(f"{section}.{key}")
            if variable in self._environ:
                self.take(f"{section}.{key}", self._environ[variable],
                          f"environment: {variable}")

    def require_known_sections(self) -> None:
        """ConfigError where something was read for a section that no sink has added."""
        for section, lines in self._later.items():
            raise ConfigError(f"{lines[0][2]}: expected one of the sections "
                              f"{' '.join(sections_of(self.options))}, got '[{section}]'")


def load(path: str | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """
    The Config of this machine and user; `path` stands for the system's and the user's file.

    Raises ConfigError.
    """
    config = Config(environ)
    if path:
        _read_file(config, path, unless=())
    else:
        system = "/etc/iostats/site.cfg"
        _read_file(config, system if _is_there(system) else BESIDE)
        directory = os.path.join(environ.get("HOME", ""), ".iostats")
        if directory.startswith("/") and _is_trusted(directory):
            _read_file(config, os.path.join(directory, "site.cfg"),
                       unless=(*_NOT_THERE, PermissionError))
    # Each look into os.environ that finds nothing is an exception: none of them where none is set.
    if any(variable.startswith("IOSTATS_") for variable in environ):
        for variable, name in in_environment(environ).items():
            config.take(name, environ[variable], f"environment: {variable}")
    if config["server.port_first"] > config["server.port_last"]:
        raise ConfigError(f"{config.origin['server.port_last']}: [server] port_last: expected a "
                          f"port of at least port_first = {config['server.port_first']}, got "
                          f"'{config['server.port_last']}'")
    return config


def in_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """{variable: the key that it sets, which may be an old one} of `environ`; old ones first."""
    known = {_variable(name): name for name in (*RENAMED, *OPTIONS)}
    return {variable: name for variable, name in known.items() if variable in environ}


def _variable(name: str) -> str:
    return "IOSTATS_" + name.upper().replace(".", "_")


def _is_trusted(directory: str) -> bool:
    """Root uses no other user's directory: sudo may leave HOME as it was."""
    try:
        return os.geteuid() != 0 or (os.stat(os.path.dirname(directory)).st_uid == 0
                                     and os.lstat(directory).st_uid == 0)
    except OSError:
        return False


_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def _is_there(path: str) -> bool:
    """True also for a file that may not be read: that is an error, and no other file is used."""
    try:
        os.stat(path)
    except _NOT_THERE:
        return False
    except OSError:
        return True
    return True


def _read_file(config: Config, path: str,
               unless: tuple[type[OSError], ...] = _NOT_THERE) -> None:
    try:
        text = read_text(path, of_any_kind=not unless)
    except unless:
        return
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = text.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        lineno = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{lineno}: expected text in UTF-8") from None
    config.files.append(path)
    section: str | None = None
    seen: dict[str, int] = {}
    for lineno, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        where = f"{path}:{lineno}"
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
            if section not in SECTIONS and not _is_a_sinks(section):
                raise ConfigError(f"{where}: expected one of the sections {_all_sections()}, got "
                                  f"{line!r}")
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise ConfigError(f"{where}: expected [section], key = value or # comment, "
                              f"got {line!r}")
        if section is None:
            raise ConfigError(f"{where}: expected [section] before the first key, got {line!r}")
        name = f"{section}.{key}"
        new_name, as_new = RENAMED.get(name, (name, None))
        same = name if as_new else new_name         # a key and its old name are the same key
        if same in seen:
            raise ConfigError(f"{where}: [{section}] {key} is set in line {seen[same]} already; "
                              f"remove one")
        seen[same] = lineno
        if section in FREE_SECTIONS:
            config.labels[key] = value
        elif section in SECTIONS:
            _take(config, name, value, where)
        else:
            config.take_later(section, key, value, where)


def _take(config: Config, name: str, text: str, where: str) -> None:
    if name not in config.options and name not in RENAMED:
        section, _, key = name.partition(".")
        there = [name.partition(".")[2] for name in config.options
                 if name.startswith(section + ".")]
        raise ConfigError(f"{where}: [{section}] has no key {key!r}; it has: {' '.join(there)}")
    config.take(name, text, where)


def _is_a_sinks(section: str) -> bool:
    """
    True where a sink may be of that name.

    A node looks no closer, since each look is an access to a file system; the site's server and
    `iostats config` do (require_known_sections).
    """
    path = os.path.join(_SINKS, section)
    return section.isidentifier() and section[0] != "_" and (
        os.path.isdir(path) or os.path.isfile(f"{path}.py"))


def _all_sections() -> str:
    from iostats.base import plug_ins
    return " ".join((*SECTIONS[:-len(FREE_SECTIONS)], *plug_ins.names(_SINKS), *FREE_SECTIONS))


def sections_of(options: Iterable[str]) -> list[str]:
    """Sections of "section.key", in their order, and those whose keys a site makes up."""
    return [*dict.fromkeys(name.partition(".")[0] for name in options), *FREE_SECTIONS]


SECTIONS = sections_of(OPTIONS)
