"""
A site's choices: site.cfg, in four places, the later one wins.

    1. /etc/iostats/site.cfg, or else that in the scripts' directory      the system's
    2. ~/.iostats/site.cfg                                                the user's own
    3. IOSTATS_SECTION_KEY=value in the environment                       IOSTATS_SERVER_HOST=..
    4. the command line

`--config FILE` stands for 1 and 2.  The form is ini: "[section]", "key = value", and lines
that begin with "#" or ";" are comments.  Nodes read it at every job start, where `configparser`
would cost as much as a bare interpreter, so it is read here, in a few lines.

An error message names the file, the line, the section, the key, and what is allowed.  The keys are
in options.py; those that were renamed are accepted, and noted with the new name.

The options of a sink are in its module, which nodes do not import: the keys of its section are kept
as text until `add_section` brings the options that check them.
"""

from __future__ import annotations

import os

from iostats.base.errors import ConfigError
from iostats.base.options import FREE_SECTIONS, OPTIONS, RENAMED, SECTIONS, sections_of
from iostats.base.private_files import make_or_explain, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.options import Option

DEFAULT = "the default"              # the origin of a value that no place sets
_SINKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sinks")
BESIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "site.cfg")


class Config(dict):  # type: ignore[type-arg]     # dict[str, Any]; Any is not there at run time
    """
    The values that apply: "section.key" -> value.

    Attributes:
        origin: "section.key" -> where the value came from, in words.
        free: section whose keys a site makes up -> {key: text}; `labels`: that of [labels].
        files: paths of the files that were read.
        notes: a line for each old key that was read.
        options: "section.key" -> Option; those of a sink are there after `add_section`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._environ = environ or {}
        self.origin: dict[str, str] = {}
        self.free: dict[str, dict[str, str]] = {section: {} for section in FREE_SECTIONS}
        self.labels = self.free["labels"]        # file system -> its name in tables
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


def load(path: str | None = None, environ: Mapping[str, str] = os.environ,
         users: str | None = None) -> Config:
    """
    The Config of this machine and user; `path` stands for the system's and the user's file,
    `users` for the user's alone.

    Raises ConfigError.
    """
    config = Config(environ)
    if path:
        _read_file(config, path, unless=())
    if not path:
        system = "/etc/iostats/site.cfg"
        _read_file(config, system if _is_there(system) else BESIDE)
        directory = os.path.join(environ.get("HOME", ""), ".iostats")
        if not users and directory.startswith("/") and _is_trusted(directory):
            _read_file(config, os.path.join(directory, "site.cfg"),
                       unless=(*_NOT_THERE, PermissionError))
    if users:
        _read_file(config, users, unless=())
    # Each look into os.environ that finds nothing is an exception: none of them where none is set.
    if any(variable.startswith("IOSTATS_") for variable in environ):
        for variable, name in in_environment(environ).items():
            config.take(name, environ[variable], f"environment: {variable}")
    if config["server.port_first"] > config["server.port_last"]:
        raise ConfigError(f"{config.origin['server.port_last']}: [server] port_last: expected a "
                          f"port of at least port_first = {config['server.port_first']}, got "
                          f"'{config['server.port_last']}'")
    return config


def state_path(config: Config, name: str) -> str:
    """
    The path in `name`.  Where no place sets it, and the default is not this user's to write: one
    below $XDG_STATE_HOME, or ~/.local/state; StateError.

    Source: XDG Base Directory Specification 0.8.
    """
    path = str(config[name])
    if config.origin[name] != DEFAULT or os.geteuid() == 0 or os.access(
            path if os.path.lexists(path) else os.path.dirname(path), os.W_OK):
        return path
    state_home = os.environ.get("XDG_STATE_HOME", "")
    if not state_home.startswith("/"):
        state_home = os.path.expanduser("~/.local/state")
    directory = os.path.join(state_home, "iostats")
    section, _, key = name.partition(".")
    make_or_explain(directory, f"in site.cfg: [{section}] {key}")
    return os.path.join(directory, os.path.basename(path))


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
            config.free[section][key] = value
            config.origin[name] = where
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
