"""
Whether a configuration file would be accepted: what ldmsd of a release would refuse, and why.

    line      = verb (blank+ attribute)*          verb: up to the first blank, a tab is part of it
    attribute = NAME "=" VALUE | NAME             without quotes: a value has no blank
    "#" behind a blank, or first, begins a comment; a backslash last joins the next line

ldmsd reads a file twice: first what concerns itself (listen, auth_add, env, option ...), then the
rest.  It starts producers, updaters and policies when all was read; so those may be started before
they are complete, not before they are added.

Told by errno as ldmsd does: 2 ENOENT, 16 EBUSY, 17 EEXIST, 22 EINVAL, 38 ENOSYS.  Not known here:
what a plugin makes of its configuration, and whether a library, a file or a port is there.

Source: __process_config_file() in ldmsd_config.c, ldmsd_parse_config_str() in
ldmsd_request_util.c, the handlers in ldmsd_request.c, of 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import re
from collections import namedtuple
from errno import EBUSY, EEXIST, EINVAL, ENOENT, ENOSYS

from iostats.ldms.description.daemons import TRANSPORTS
from iostats.ldms.description.values import nearest
from iostats.ldms.statements.statement import Statement
from iostats.ldms.statements.values import (
    integer,
    interval_us,
    why_not_regex,
    wrong_listen,
    wrong_mode,
    wrong_schedule,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Union

    from iostats.ldms.statements.dialect import Dialect

_LONGEST_NAME = 255

RefusedStatement = namedtuple("RefusedStatement", "line text errno")
RefusedStatement.__doc__ = """
Attributes:
    line: of the file, or the statement's place, from 1.
    text: one line.
    errno: what ldmsd would exit with, or answer.
"""

_FIRST = {"env", "listen", "auth_add", "option", "include", "loglevel", "log_level", "default_auth",
          "memory", "set_memory", "log_file", "publish_kernel", "daemon_name", "worker_threads",
          "default_quota", "pid_file", "banner", "stream_disable", "stream_enable", "msg_disable",
          "msg_enable"}
_ADDS = {"prdcr_add": "producer", "bridge_add": "producer", "advertiser_add": "producer",
         "updtr_add": "updater", "strgp_add": "storage policy",
         "prdcr_listen_add": "prdcr_listen", "auth_add": "authentication domain",
         "load": "plugin", "setgroup_add": "setgroup"}
_NEEDS = {"prdcr_start": "producer", "prdcr_stop": "producer", "prdcr_del": "producer",
          "bridge_start": "producer", "bridge_stop": "producer", "bridge_del": "producer",
          "advertiser_stop": "producer", "advertiser_del": "producer",
          **dict.fromkeys(("updtr_start", "updtr_stop", "updtr_del", "updtr_prdcr_add",
                           "updtr_prdcr_del", "updtr_match_add", "updtr_match_del"), "updater"),
          **dict.fromkeys(("strgp_start", "strgp_stop", "strgp_del", "strgp_prdcr_add",
                           "strgp_prdcr_del", "strgp_metric_add", "strgp_metric_del"),
                          "storage policy"),
          **dict.fromkeys(("prdcr_listen_start", "prdcr_listen_stop", "prdcr_listen_del"),
                          "prdcr_listen"),
          **dict.fromkeys(("config", "start", "stop", "term"), "plugin"),
          "auth_del": "authentication domain"}
_MADE_BY = {"producer": "prdcr_add", "updater": "updtr_add", "storage policy": "strgp_add",
            "prdcr_listen": "prdcr_listen_add", "plugin": "load",
            "authentication domain": "auth_add"}
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def problems(source: Iterable[Union[str, Statement]], dialect: Dialect) -> list[RefusedStatement]:
    """
    What would be refused of the lines of a file, or of the statements in their order.

    ldmsd stops at the first; here all are told.
    """
    checker = _Checker(dialect)
    later = []
    for line, statement in _statements(source, checker.found):
        if statement.verb in _FIRST:
            checker.check(line, statement)
        else:
            later.append((line, statement))
    for line, statement in later:
        checker.check(line, statement)
    return sorted(checker.found)


def _statements(source: Iterable[Union[str, Statement]],
                found: list[RefusedStatement]) -> Iterator[tuple[int, Statement]]:
    """(line, statement); what cannot stand on a line is told in `found`."""
    joined = ""
    for number, line in enumerate(source, start=1):
        if isinstance(line, Statement):
            text = _why_not_a_line(line)
            if text:
                found.append(RefusedStatement(number, text, EINVAL))
            else:
                yield number, line
            continue
        joined += re.sub(r"(?:^|(?<=\s))#.*", "", line).strip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined:
            verb, _, rest = joined.partition(" ")
            yield number, Statement(verb, tuple(
                (name, value if equals else None)
                for name, equals, value in (word.partition("=") for word in rest.split())))
        joined = ""


def _why_not_a_line(statement: Statement) -> str:
    words = [(statement.verb, statement.verb)] + [
        (name, name if value is None else f"{name}={value}")
        for name, value in statement.attributes]
    for name, word in words:
        if _CONTROL.search(word):
            return (f"{statement.verb}: {name[:40]}: expected a value without blanks, got "
                    f"{word[:60]!r}; ldmsd has no quotes")
        if word.startswith("#"):
            return f"{statement.verb}: expected an attribute, got {word[:60]!r}, a comment"
    if words[-1][1].endswith("\\"):
        return (f"{statement.verb}: {words[-1][0][:40]}: a backslash at the end of a line joins "
                "the next one")
    return ""


class _Checker:
    """
    Attributes:
        there: {kind: names} that were added.
        started: plugins that were.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.found: list[RefusedStatement] = []
        self.there: dict[str, set[str]] = {kind: set() for kind in _ADDS.values()}
        self.started: set[str] = set()
        self.ports: set[tuple[str, str, str]] = set()

    def check(self, line: int, statement: Statement) -> None:
        """One statement; what is wrong with it goes into `found`."""
        refusal = self._refusal(statement)
        if refusal:
            text, errno = refusal
            self.found.append(RefusedStatement(line, f"{statement.verb}: {text}"[:400], errno))

    def _refusal(self, statement: Statement) -> tuple[str, int] | None:
        verb = self.dialect.verbs.get(statement.verb)
        if verb is None:
            return (f"LDMS {self.dialect.release} has no such statement"
                    + nearest(statement.verb, self.dialect.verbs), ENOSYS)
        values: dict[str, str] = {}
        for name, value in statement.attributes:
            is_own = not verb.takes_others or (statement.verb == "config"
                                               and name.startswith("name"))
            if is_own and name not in self.dialect.words:
                return self._unknown(statement.verb, name)
            values.setdefault(name, "" if value is None else value)
        for names in verb.required:
            # 4.4 takes an empty value for one.
            if not any(name in values and values[name] for name in names):
                if statement.verb == "prdcr_add" and names == ("port",):
                    continue
                return f"{names[0]} is required", EINVAL
        return (self._wrong_value(statement, values) or self._wrong_objects(statement.verb, values)
                or None)

    def _unknown(self, verb: str, name: str) -> tuple[str, int]:
        if verb == "config":
            return (f"expected no attribute that begins with \"name\", got {name[:60]!r}; ldmsd "
                    "takes it for the name of the plugin's instance", EINVAL)
        return (f"LDMS {self.dialect.release} has no attribute {name[:60]!r}"
                + nearest(name, self.dialect.verbs[verb].attributes), EINVAL)

    def _wrong_value(self, statement: Statement, values: dict[str, str]) -> tuple[str, int] | None:
        text = ""
        verb, given = statement.verb, {name: value for name, value in values.items()
                                       if "$" not in value or name == "regex"}
        if "port" in given and not 0 < integer(given["port"]) < 1 << 16:
            text = f"port: expected 1 to 65535, got {given['port'][:40]!r}"
        elif given.get("xprt", "sock") not in TRANSPORTS:
            text = f"xprt: expected one of {', '.join(TRANSPORTS)}, got {given['xprt'][:40]!r}"
        elif "regex" in given and why_not_regex(given["regex"]):
            text = f"regex: {why_not_regex(given['regex'])} in {given['regex'][:60]!r}"
        elif "name" in given and len(given["name"]) > _LONGEST_NAME:
            text = f"name: expected up to {_LONGEST_NAME} letters, got {len(given['name'])}"
        elif verb in ("prdcr_add", "bridge_add", "advertiser_add"):
            text = self._wrong_producer(verb, given, values)
        elif verb in ("start", "updtr_add", "updtr_start", "setgroup_add"):
            text = wrong_schedule(given) or wrong_mode(given)
        elif verb == "strgp_add":
            return self._wrong_policy(given)
        elif verb == "updtr_match_add" and given.get("match", "inst") not in ("inst", "schema"):
            text = f"match: expected inst or schema, got {given['match'][:40]!r}"
        elif verb in ("prdcr_subscribe", "prdcr_unsubscribe"):
            names = [name for name in ("stream", "message_tag", "message_channel")
                     if name in values]
            if len(names) != 1:
                text = f"expected one of stream and message_tag, got {', '.join(names) or 'none'}"
        elif verb == "prdcr_listen_add" and self.dialect.has(verb, "type"):
            text = wrong_listen(given)
        elif verb == "metric_sets_default_authz" and not re.match(
                r"0*[0-7]{1,3}\Z", given.get("perm", "0")):
            text = f"perm: expected an octal number up to 777, got {given['perm'][:40]!r}"
        elif verb == "env" and not values:
            text = "expected NAME=VALUE"
        elif verb == "option":
            return self._wrong_option(statement)
        elif verb == "config" and not any(name != "name" for name in values):
            text = "expected attributes for the plugin"
        return (text, EINVAL) if text else None

    def _wrong_producer(self, verb: str, given: dict[str, str], values: dict[str, str]) -> str:
        kinds = ["active", "passive", "advertiser", "advertised"]
        if self.dialect.has("bridge_add"):
            kinds.append("bridge")
        kind = given.get("type", "active").lower()
        if kind not in kinds:
            return f"type: expected one of {', '.join(kinds)}, got {kind[:40]!r}"
        if "port" not in values and (kind != "passive" or not self.dialect.has("bridge_add")):
            return "port is required"
        for name in ("reconnect", "interval"):
            if name in given and (interval_us(given[name]) or 0) <= 0:
                return f"{name}: expected an interval above 0, got {given[name][:40]!r}"
        if "rail" in given and integer(given["rail"]) < 1:
            return f"rail: expected a number above 0, got {given['rail'][:40]!r}"
        return ""

    def _wrong_policy(self, given: dict[str, str]) -> tuple[str, int] | None:
        text = ""
        if "schema" in given and "regex" in given:
            text = "expected one of schema and regex, got both"
        elif "schema" not in given and "regex" not in given:
            text = "schema or regex is required"
        elif "regex" in given and "decomposition" not in given:
            text = "decomposition is required with regex"
        elif "container" not in given and self.dialect.release == "4.4":
            text = "container is required"
        elif "flush" in given and interval_us(given["flush"]) is None:
            return f"flush: expected an interval such as 10s, got {given['flush'][:40]!r}", ENOENT
        return (text, EINVAL) if text else None

    def _wrong_option(self, statement: Statement) -> tuple[str, int] | None:
        words = [name if value is None else f"{name}={value}"
                 for name, value in statement.attributes]
        if not words:
            return "expected an option of ldmsd", EINVAL
        option = self.dialect.options.get(words[0].partition("=")[0])
        if option is None:
            return (f"LDMS {self.dialect.release} takes no option {words[0][:40]!r} here"
                    + nearest(words[0], self.dialect.options), ENOENT)
        if option == "--publish_kernel":
            return None
        if len(words) < 2 and "=" not in words[0]:
            return f"{words[0]}: expected a value", ENOENT
        return None

    def _wrong_objects(self, verb: str, values: dict[str, str]) -> tuple[str, int] | None:
        name = values.get("name", "")
        auth = values.get("auth", "") if "auth_add" != verb else ""
        if auth and auth not in self.there["authentication domain"]:
            return f"no authentication domain {auth[:60]!r}; auth_add it", ENOENT
        kind = _NEEDS.get(verb)
        if kind and name not in self.there[kind]:
            return f"no {kind} {name[:60]!r}; {_MADE_BY[kind]} has to come first", ENOENT
        if verb in ("prdcr_del", "bridge_del", "advertiser_del", "updtr_del", "strgp_del",
                    "prdcr_listen_del", "auth_del", "term") and kind:
            self.there[kind].discard(name)
        if verb == "strgp_add" and values["plugin"] not in self.there["plugin"]:
            return f"no plugin {values['plugin'][:60]!r}; load has to come first", ENOENT
        if verb == "advertiser_start" and name not in self.there["producer"]:
            for needed in ("xprt", "host", "port", "reconnect"):
                if not values.get(needed):
                    return f"no advertiser {name[:60]!r}, and no {needed} to make one", EINVAL
            self.there["producer"].add(name)
        if verb == "start":
            if name in self.started:
                return f"plugin {name[:60]!r} runs already", EBUSY
            self.started.add(name)
        elif verb == "stop":
            self.started.discard(name)
        elif verb == "listen":
            where = values["xprt"], values.get("port", "411"), values.get("host", "")
            if where in self.ports:
                return f"{where[0]} port {where[1]} is listened on already", EEXIST
            self.ports.add(where)
        kind = _ADDS.get(verb)
        if kind:
            if name in self.there[kind]:
                return f"there is a {kind} {name[:60]!r} already", EEXIST
            self.there[kind].add(name)
        return None
