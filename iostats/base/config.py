"""
The configuration of a site: site.cfg in up to four places; a later place overrides an earlier one.

    1. /etc/iostats/site.cfg, or else that in the scripts' directory      the system's
    2. ~/.iostats/site.cfg                                                the user's own
    3. IOSTATS_SECTION_KEY=value in the environment                       IOSTATS_SERVER_HOST=..
    4. the command line

`--config FILE` stands for 1 and 2.  The form is ini: "[section]", "key = value", and lines
that begin with "#" or ";" are comments.  Nodes read it at every job start, where `configparser`
would cost as much as a bare interpreter, so it is read here, in a few lines.

An error message names the file, the line, the section, the key, and what is allowed.  The keys are
in options.py.

The options of a sink are in its module, which nodes do not import: the keys of its section are
stored as text until `add_section` brings the options that check them.  Sinks are the modules and
packages of a directory that define NAME = "...": adding one is adding a file.
"""

from __future__ import annotations

import os

from iostats.base.errors import ConfigError
from iostats.base.option_kinds import list_options
from iostats.base.options import FREE_SECTIONS, OPTIONS, SECTIONS, Sections, list_sections
from iostats.base.private_files import make_directory, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from iostats.base.option_kinds import Section

    AnySection = TypeVar("AnySection", bound=Section)

DEFAULT = "the default"              # the origin of a value that no place sets
_SINKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sinks")
BESIDE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "site.cfg")


class Config(Sections):
    """
    The values in force: `config.server.port_first`; of a sink `config.find_section(ItsSection)`.

    Attributes:
        origin: "section.key" -> where the value came from, in words.
        free: section whose keys a site makes up -> {key: text}; `labels`: that of [labels].
        files: paths of the files that were read.
        options: "section.key" -> Option; those of a sink are there after `add_section`.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._environ = environ or {}
        self.origin = dict.fromkeys(OPTIONS, DEFAULT)
        self.free: dict[str, dict[str, str]] = {section: {} for section in FREE_SECTIONS}
        self.labels = self.free["labels"]        # file system -> its name in tables
        self.files: list[str] = []
        self.options = OPTIONS
        self._later: dict[str, list[tuple[str, str, str]]] = {}     # section: key, text, where

    def get_value(self, name: str) -> object:
        """Return the value of a "section.key" that is chosen at run time."""
        section, _, key = name.partition(".")
        return getattr(getattr(self, section), key)

    def replace_values(self, values: Mapping[str, object]) -> None:
        """Set values that are checked already, {"section.key": value}."""
        for name, value in values.items():
            section, _, key = name.partition(".")
            setattr(getattr(self, section), key, value)

    def set_value(self, name: str, text: str, where: str) -> None:
        """Check `text` and set it as the value of `name`; ConfigError names `where`."""
        section, _, key = name.partition(".")
        option = self.options[name]
        try:
            setattr(getattr(self, section), key, option.check(text))
        except ValueError:
            raise ConfigError(f"{where}: [{section}] {key}: expected {option.expected}, "
                              f"got {text!r}") from None
        self.origin[name] = where

    def locate(self, name: str) -> str:
        """
        Return the origin and the place of a key, for messages.

        >>> Config().locate("web.trusted")
        'the default: [web] trusted'
        """
        section, _, key = name.partition(".")
        return f"{self.origin[name]}: [{section}] {key}"

    def set_unchecked(self, section: str, key: str, text: str, where: str) -> None:
        """Store the text of a key whose section has no options yet; `add_section` checks it."""
        self._later.setdefault(section, []).append((key, text, where))

    def find_section(self, section: type[AnySection]) -> AnySection:
        """Return the values of a section that `add_section` added."""
        return next(values for values in vars(self).values() if type(values) is section)

    def add_section(self, name: str, section: type[Section]) -> None:
        """
        Add a section and check the texts stored for it; once for each section.  Raises ConfigError.
        """
        if hasattr(self, name):
            return
        setattr(self, name, section())
        options = {f"{name}.{key}": option for key, option in list_options(section).items()}
        self.options = {**self.options, **options}
        self.origin.update(dict.fromkeys(options, DEFAULT))
        for key, text, where in self._later.pop(name, ()):
            _set_checked(self, f"{name}.{key}", text, where)
        for option in options:
            variable = _make_variable_name(option)
            if variable in self._environ:
                self.set_value(option, self._environ[variable], f"environment: {variable}")

    def require_known_sections(self) -> None:
        """Raise ConfigError if site.cfg has a section that no sink has added."""
        for section, lines in self._later.items():
            raise ConfigError(f"{lines[0][2]}: expected one of the sections "
                              f"{' '.join(list_sections(self.options))}, got '[{section}]'")


def load(path: str | None = None, environ: Mapping[str, str] = os.environ,
         users: str | None = None) -> Config:
    """
    Read the configuration of this machine and user.  `path` replaces the files of the system and of
    the user, `users` only that of the user.  Raises ConfigError.
    """
    config = Config(environ)
    if path:
        _read_file(config, path, unless=())
    if not path:
        system = "/etc/iostats/site.cfg"
        _read_file(config, system if _is_there(system) else BESIDE)
        directory = os.path.join(environ.get("HOME", ""), ".iostats")
        if not users and directory.startswith("/") and _is_trusted(directory):
            # HOME may be another user's (su); what is this user's own is not ignored.
            _read_file(config, os.path.join(directory, "site.cfg"), unless=(
                _NOT_THERE if _is_own(directory) else (*_NOT_THERE, PermissionError)))
    if users:
        _read_file(config, users, unless=())
    # Each look into os.environ that finds nothing is an exception: none of them where none is set.
    if any(variable.startswith("IOSTATS_") for variable in environ):
        for variable, name in find_variables(environ).items():
            config.set_value(name, environ[variable], f"environment: {variable}")
    if config.server.port_first > config.server.port_last:
        raise ConfigError(f"{config.locate('server.port_last')}: expected a port of at least "
                          f"port_first = {config.server.port_first}, got "
                          f"'{config.server.port_last}'")
    return config


def find_state_path(config: Config, name: str) -> str:
    """
    Return the path in the key `name`.  If no place sets it and this user cannot write to the
    default, return a path below $XDG_STATE_HOME or ~/.local/state.  Raises StateError.

    Source: XDG Base Directory Specification 0.8.
    """
    path = str(config.get_value(name))
    if config.origin[name] != DEFAULT or os.geteuid() == 0 or os.access(
            path if os.path.lexists(path) else os.path.dirname(path), os.W_OK):
        return path
    state_home = os.environ.get("XDG_STATE_HOME", "")
    if not state_home.startswith("/"):
        state_home = os.path.expanduser("~/.local/state")
    directory = os.path.join(state_home, "iostats")
    section, _, key = name.partition(".")
    make_directory(directory, f"in site.cfg: [{section}] {key}")
    return os.path.join(directory, os.path.basename(path))


def find_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return {variable: key that it sets} for the IOSTATS_ variables in `environ`."""
    variables = {_make_variable_name(name): name for name in OPTIONS}
    return {variable: name for variable, name in variables.items() if variable in environ}


def _make_variable_name(name: str) -> str:
    """Return the environment variable of a key: "site.host" -> "IOSTATS_SITE_HOST"."""
    return "IOSTATS_" + name.upper().replace(".", "_")


def _is_trusted(directory: str) -> bool:
    """True unless root would use the directory of another user: sudo may leave HOME unchanged."""
    try:
        return os.geteuid() != 0 or (os.stat(os.path.dirname(directory)).st_uid == 0
                                     and os.lstat(directory).st_uid == 0)
    except OSError:
        return False


def _is_own(directory: str) -> bool:
    try:
        return os.stat(directory).st_uid == os.geteuid()
    except OSError:
        return False


_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def _is_there(path: str) -> bool:
    """
    True if the file exists, also if it cannot be read: that is an error, and no other file is used
    instead.
    """
    try:
        os.stat(path)
    except _NOT_THERE:
        return False
    except OSError:
        return True
    return True


def _read_file(config: Config, path: str,
               unless: tuple[type[OSError], ...] = _NOT_THERE) -> None:
    """
    Read the file `path` into `config`; a missing file is an error only for an explicit --config.
    """
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
    line_of: dict[str, int] = {}
    for lineno, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        where = f"{path}:{lineno}"
        if line[0] == "[" and line[-1] == "]":
            section = line[1:-1].strip()
            if section not in SECTIONS and not _may_be_sink(section):
                raise ConfigError(f"{where}: expected one of the sections {_list_sections()}, got "
                                  f"{line!r}")
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise ConfigError(f"{where}: expected [section], key = value or # comment, "
                              f"got {line!r}")
        if section is None:
            raise ConfigError(f"{where}: expected [section] before the first key, got {line!r}")
        name = f"{section}.{key}"
        if name in line_of:
            raise ConfigError(f"{where}: [{section}] {key} is set in line {line_of[name]} already; "
                              f"remove one")
        line_of[name] = lineno
        if section in FREE_SECTIONS:
            config.free[section][key] = value
            config.origin[name] = where
        elif section in SECTIONS:
            _set_checked(config, name, value, where)
        else:
            config.set_unchecked(section, key, value, where)


def _set_checked(config: Config, name: str, text: str, where: str) -> None:
    """Set one key from a file; ConfigError lists the allowed names if it is unknown."""
    if name not in config.options:
        section, _, key = name.partition(".")
        there = [name.partition(".")[2] for name in config.options
                 if name.startswith(section + ".")]
        raise ConfigError(f"{where}: [{section}] has no key {key!r}; it has: {' '.join(there)}")
    config.set_value(name, text, where)


def _may_be_sink(section: str) -> bool:
    """
    True if a sink of this name may exist.  A node does not check further, because each check is a
    file access; the site's server and `iostats config` do (require_known_sections).
    """
    path = os.path.join(_SINKS, section)
    return section.isidentifier() and section[0] != "_" and (
        os.path.isdir(path) or os.path.isfile(f"{path}.py"))


def _list_sections() -> str:
    return " ".join((*SECTIONS[:-len(FREE_SECTIONS)], *list_plug_ins(_SINKS),
                     *FREE_SECTIONS))


def list_plug_ins(directory: str) -> list[str]:
    """Return the names of the plug-ins in `directory`, sorted; OSError."""
    plug_ins = []
    for entry in os.listdir(directory):
        name, ending = os.path.splitext(entry)
        path = os.path.join(directory, entry)
        if not ending and os.path.isfile(os.path.join(path, "__init__.py")):
            path = os.path.join(path, "__init__.py")
        elif ending != ".py":
            continue
        with open(path, encoding="utf-8") as file:
            if f'\nNAME = "{name}"\n' in file.read():
                plug_ins.append(name)
    return sorted(plug_ins)
