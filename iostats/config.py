"""
A site's choices: site.cfg, in four places, the later one wins.

    1. /etc/iostats/site.cfg, or else the site.cfg beside the scripts     the system's
    2. ~/.iostats/site.cfg                                                the user's own
    3. IOSTATS_SECTION_KEY=value in the environment                       IOSTATS_SERVER_HOST=..
    4. the command line

`--config FILE` stands for 1 and 2.  The form is ini: "[section]", "key = value", and lines
that begin with "#" or ";" are comments.  Nodes read it at every job start, where `configparser`
would cost as much as a bare interpreter, so it is read here, in a few lines.

A mistake names the file, the line, the section, the key, and what is allowed.
"""

import os
from collections import namedtuple

from iostats.errors import ConfigError
from iostats.files import read_text

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


def _text(value):
    if not value.isprintable():
        raise ValueError
    return value


def _integer(low, high):
    def check(value):
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            raise ValueError
        return int(value)
    return check


def _seconds(value):
    seconds = float(value)
    if not 0 <= seconds <= 1e7:
        raise ValueError
    return seconds


def _one_of(choices):
    def check(value):
        if value not in choices:
            raise ValueError
        return value
    return check


def _number(low, high, default, help):
    return Option(str(default), _integer(low, high), f"a number from {low} to {high}", help)


def _wait(default, help):
    return Option(str(default), _seconds, "seconds, from 0 to 10000000", help)


OPTIONS = {
    "node.state_dir": Option("", _text, "a folder", (
        "Where `start` keeps its snapshot until `stop`; it must be the user's own.  Empty: a "
        "private folder with a name that others cannot guess, below /tmp.")),
    "node.job_id_variables": Option(
        "SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID FLUX_JOB_ID COBALT_JOBID", str.split,
        "names of environment variables", "Where the job id is looked for; the first one set."),
    "node.mdc_path": Option("", _text, "a glob of folders", (
        "Which llite folders (mounts) are read, such as /proc/fs/lustre/llite/snx1100*.  "
        "Empty: all mounts, in all places that Lustre 2.5 to 2.17 use.")),
    "node.osc_path": Option("", _text, "a glob of folders", (
        "Which osc folders (OSTs) are read, such as /proc/fs/lustre/osc/snx1100*.  "
        "Empty: all.")),
    "node.try_for": _wait(60, (
        "`stop` tries to reach the server for so many seconds, with growing waits, then keeps "
        "the delta for a later `stop`.")),
    "node.reader": Option("/run/iostats/reader.sock", _text, "a socket", (
        "Where the reader listens, which gives ordinary users the counters that only root may "
        "read; asked when a counter file is refused, and the socket is there.  Empty: never.")),
    "node.public_dir": Option("/run/iostats/start", _text, "a folder", (
        "Where root's `start --public` keeps a snapshot that the job's user can use, but not "
        "change.")),
    "server.host": Option("", _text, "a host name", "Where the job's server runs; stop --server."),
    "server.port_first": _number(1, 65535, 20000, (
        "First of the ports that job ids are mapped to; keep them out of the kernel's "
        "ephemeral ports (sysctl net.ipv4.ip_local_port_range).")),
    "server.port_last": _number(1, 65535, 29999, "Last of them."),
    "server.port_tries": _number(1, 1000, 16, (
        "So many ports are tried when the first one is taken by somebody else.")),
    "server.deadline": _wait(60, (
        "The server waits so many seconds for the other nodes after the first `stop`.")),
    "server.max_message_bytes": _number(1024, 1 << 30, 16 << 20, (
        "A larger message is refused unread.")),
    "server.max_nodes": _number(1, 10_000_000, 100_000, "More nodes are refused."),
    "server.max_connections": _number(16, 1_000_000, 20_000, (
        "At so many open connections the ones that say nothing are closed first.")),
    "server.silence": _wait(10, "A connection that says nothing is closed after so many seconds."),
    "server.clock_tolerance": _wait(300, (
        "A message is stale when its time is further than so many seconds from the server's.")),
    "secret.dir": Option("~/.iostats", _text, "a folder", (
        "Where the server puts the job's secret; a folder that the nodes share.")),
    "report.format": Option("grid", _one_of(FORMATS), " or ".join(FORMATS), "Form of the tables."),
    "report.units": Option("binary", _one_of(UNITS), " or ".join(UNITS), (
        "binary: 1 MiB = 1048576 bytes.  decimal: 1 MB = 1000000 bytes.  bytes: as they are.")),
    "report.columns": Option("", str.split, "names of operations", (
        "Operations that the tables show, in this order.  Empty: every operation that happened.")),
    "report.file_systems": Option("", str.split, "names of file systems", (
        "File systems that the tables show, in this order.  Empty: all.")),
}

# Sections whose keys a site makes up: file system = its name in tables.
FREE_SECTIONS = {"labels": "What the tables call a file system: snx11001 = BW Home"}

BESIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "site.cfg")


class Config(dict):
    """
    What is in force: "section.key" -> value.

    Attributes:
        origin: "section.key" -> where the value came from, in words.
        labels: file system -> its name in tables.
        files: paths of the files that were read.
    """

    def __init__(self):
        super().__init__()
        self.origin, self.labels, self.files = {}, {}, []
        for name in OPTIONS:
            self.take(name, OPTIONS[name].default, "the default")

    def take(self, name, text, where):
        """Put the value of `text` in force; ConfigError names `where`."""
        option = OPTIONS[name]
        try:
            self[name] = option.check(text)
        except ValueError:
            section, _, key = name.partition(".")
            raise ConfigError(f"{where}: [{section}] {key}: expected {option.expected}, "
                              f"got {text!r}") from None
        self.origin[name] = where


def load(path=None, environ=os.environ):
    """
    The Config of this machine and user; `path` stands for the system's and the user's file.

    Raises ConfigError.
    """
    config = Config()
    if path:
        _read_file(config, path, must_exist=True)
    else:
        system = "/etc/iostats/site.cfg"
        _read_file(config, system if os.path.exists(system) else BESIDE)
        home = environ.get("HOME", "")
        if home.startswith("/"):
            _read_file(config, os.path.join(home, ".iostats", "site.cfg"))
    for name in OPTIONS:
        variable = "IOSTATS_" + name.upper().replace(".", "_")
        if variable in environ:
            config.take(name, environ[variable], f"environment: {variable}")
    if config["server.port_first"] > config["server.port_last"]:
        raise ConfigError(f"{config.origin['server.port_last']}: [server] port_last: expected a "
                          f"port of at least port_first = {config['server.port_first']}, got "
                          f"'{config['server.port_last']}'")
    return config


def _read_file(config, path, must_exist=False):
    try:
        text = read_text(path)
    except OSError as error:
        if must_exist or not isinstance(error, (FileNotFoundError, PermissionError,
                                                NotADirectoryError)):
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        return
    try:
        text = text.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        lineno = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{lineno}: expected text in UTF-8") from None
    config.files.append(path)
    section, seen = None, {}
    for lineno, line in enumerate(text.split("\n"), 1):
        line, where = line.strip(), f"{path}:{lineno}"
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
            if section not in SECTIONS:
                raise ConfigError(f"{where}: expected one of the sections "
                                  f"{' '.join(SECTIONS)}, got {line!r}")
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise ConfigError(f"{where}: expected [section], key = value or # comment, "
                              f"got {line!r}")
        if section is None:
            raise ConfigError(f"{where}: expected [section] before the first key, got {line!r}")
        if (section, key) in seen:
            raise ConfigError(f"{where}: [{section}] {key} stands in line "
                              f"{seen[section, key]} already; remove one")
        seen[section, key] = lineno
        name = f"{section}.{key}"
        if section in FREE_SECTIONS:
            config.labels[key] = value
        elif name in OPTIONS:
            config.take(name, value, where)
        else:
            raise ConfigError(f"{where}: [{section}] has no key {key!r}; it has: "
                              f"{' '.join(keys_of(section))}")


def keys_of(section):
    """The keys that `section` can have."""
    return [name.partition(".")[2] for name in OPTIONS if name.startswith(section + ".")]


SECTIONS = list(dict.fromkeys(name.partition(".")[0] for name in OPTIONS)) + list(FREE_SECTIONS)
