"""
Checker: the statements that ldmsd of a release would refuse, and why.

    line      = verb (blank+ attribute)*          verb: up to the first blank, a tab is part of it
    attribute = NAME "=" VALUE | NAME             without quotes: a value has no blank
    "#" behind a blank, or first, begins a comment; a backslash last joins the next line

ldmsd reads a file twice: first its own settings (listen, auth_add, env, option ...), then the rest.
It starts producers, updaters and policies after reading everything; so they may be started before
they are complete, but not before they are added.

Errors have ldmsd's errno: 2 ENOENT, 16 EBUSY, 17 EEXIST, 22 EINVAL, 38 ENOSYS. Not checked: a
plugin's own attributes, and whether a library, a file or a port exists.

Source: __process_config_file() in ldmsd_config.c, ldmsd_parse_config_str() in ldmsd_request_util.c,
the handlers in ldmsd_request.c, of 4.4.6 and 4.5.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from errno import EBUSY, EEXIST, EINVAL, ENOENT, ENOSYS
from typing import NamedTuple, Union

from iostats_ldms.description.sections import TRANSPORTS
from iostats_ldms.description.values import suggest
from iostats_ldms.statements.dialect import Dialect, Statement

_INTERVAL = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) *(.*)\Z")


def parse_interval(text: str) -> int | None:
    """
    Parse an interval as ldmsd does: microseconds, or None.

    Source: ovis_time_str2us() in lib/src/ovis_util/util.c: "m" is minutes whatever follows, except
    in "ms" and "milli...".
    """
    match = _INTERVAL.match(text)
    if not match:
        return None
    number, unit = float(match[1]), match[2]
    if unit in ("", "us") or unit.startswith("micro"):
        factor = 1.0
    elif unit == "ms" or unit.startswith("milli"):
        factor = 1e3
    else:
        factor = {"s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6}.get(unit[:1], 0.0)
    return int(number * factor) if factor and abs(number) < 1e15 else None


def check_schedule(fields: dict[str, str]) -> str:
    """Return the problem of an interval or offset, or ""."""
    interval_us = None
    for name in ("interval", "interval_us"):
        if name in fields:
            interval_us = parse_interval(fields[name])
            if interval_us is None or interval_us <= 0:
                return (f"{name}: expected an interval above 0, such as 1s, "
                        f"got {fields[name][:40]!r}")
    if "offset" in fields:
        offset_us = parse_interval(fields["offset"])
        if offset_us is None:
            return f"offset: expected a time such as 100ms, got {fields['offset'][:40]!r}"
        if interval_us is not None and interval_us < 2 * abs(offset_us):
            return (f"offset: expected up to half of the interval ({interval_us // 2} us), "
                    f"got {offset_us} us")
    return ""


def check_mode(fields: dict[str, str]) -> str:
    """Return the problem of an updater's push and auto_interval, or ""."""
    auto, push = fields.get("auto_interval", "").lower(), fields.get("push", "").lower()
    if auto not in ("", "true", "false"):
        return f"auto_interval: expected true or false, got {auto[:40]!r}"
    if push not in ("", "true", "yes", "onchange"):
        return f"push: expected true or onchange, got {push[:40]!r}"
    if push and auto == "true":
        return "expected one of push and auto_interval, got both"
    return ""


def check_listener(fields: dict[str, str]) -> str:
    """Return the problem of a prdcr_listen_add of LDMS 4.5, or ""."""
    kind = fields.get("type", "passive").lower()
    if kind not in ("active", "passive"):
        return f"type: expected active or passive, got {kind[:40]!r}"
    if kind == "active":
        for name in ("advertiser_port", "reconnect", "advertiser_xprt"):
            if not fields.get(name):
                return f"{name} is required where type is active"
    return ""


def check_regex_syntax(text: str) -> str:
    """
    Return why regcomp() with REG_EXTENDED would refuse an expression, for the usual mistakes; else
    "".

    A ")" without its "(" is a literal.

    >>> check_regex_syntax("node-[0-9"), check_regex_syntax("(a|b)*"), check_regex_syntax("(a")
    ('unmatched [', '', 'unmatched (')
    """
    depth, place = 0, 0
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            if place + 1 == len(text):
                return "a backslash at the end"
            place += 1
        elif letter == "[":
            # "]" is a member where it is first; [:class:] has its own bracket.
            start = place + 2 if text[place + 1:place + 2] == "^" else place + 1
            end = start + 1 if text[start:start + 1] == "]" else start
            while end < len(text) and text[end] != "]":
                if text[end] == "[" and text[end + 1:end + 2] in (":", ".", "="):
                    close = text.find(text[end + 1] + "]", end + 2)
                    if close < 0:
                        return "unmatched ["
                    end = close + 1
                end += 1
            if end >= len(text):
                return "unmatched ["
            place = end
        elif letter == "(":
            depth += 1
        elif letter == ")" and depth:
            depth -= 1
        place += 1
    return "unmatched (" if depth else ""


def parse_integer(text: str) -> int:
    """Parse a number as strtol() with base 0 does; -1 for anything else."""
    try:
        return int(text, 8 if re.match(r"0[0-7]+\Z", text) else 0)
    except ValueError:
        return -1


_LONGEST_NAME = 255


class RefusedStatement(NamedTuple):
    """A statement that ldmsd would refuse."""

    line: int   # of the file, or the position of the statement, from 1
    text: str   # one line
    errno: int  # ldmsd's exit status or answer


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


def find_problems(source: Iterable[Union[str, Statement]],
                  dialect: Dialect) -> list[RefusedStatement]:
    """
    Find the statements ldmsd would refuse, in a file's lines or in a list of statements.

    ldmsd stops at the first; all are returned here.
    """
    checker = _Checker(dialect)
    later = []
    for line, statement in _parse_statements(source, checker.found):
        if statement.verb in _FIRST:
            checker.check(line, statement)
        else:
            later.append((line, statement))
    for line, statement in later:
        checker.check(line, statement)
    return sorted(checker.found)


def _parse_statements(source: Iterable[Union[str, Statement]],
                      result: list[RefusedStatement]) -> Iterator[tuple[int, Statement]]:
    """Yield (line, statement); lines that cannot be parsed go into `found`."""
    joined = ""
    for number, line in enumerate(source, start=1):
        if isinstance(line, Statement):
            text = _check_line(line)
            if text:
                result.append(RefusedStatement(number, text, EINVAL))
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


def _check_line(statement: Statement) -> str:
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
    Checks statements in order, with the objects that exist so far.

    Attributes:
        there: {kind: names} of added objects.
        started: names of started plugins.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.found: list[RefusedStatement] = []
        self.there: dict[str, set[str]] = {kind: set() for kind in _ADDS.values()}
        self.started: set[str] = set()
        self.ports: set[tuple[str, str, str]] = set()

    def check(self, line: int, statement: Statement) -> None:
        """Check one statement; its problem goes into `found`."""
        refusal = self._find_refusal(statement)
        if refusal:
            text, errno = refusal
            self.found.append(RefusedStatement(line, f"{statement.verb}: {text}"[:400], errno))

    def _find_refusal(self, statement: Statement) -> tuple[str, int] | None:
        verb = self.dialect.verbs.get(statement.verb)
        if verb is None:
            return (f"LDMS {self.dialect.release} has no such statement"
                    + suggest(statement.verb, self.dialect.verbs), ENOSYS)
        values: dict[str, str] = {}
        for name, value in statement.attributes:
            is_own = not verb.takes_others or (statement.verb == "config"
                                               and name.startswith("name"))
            if is_own and name not in self.dialect.words:
                return self._report_unknown(statement.verb, name)
            values.setdefault(name, "" if value is None else value)
        for names in verb.required:
            # 4.4 accepts an empty value.
            if not any(name in values and values[name] for name in names):
                if statement.verb == "prdcr_add" and names == ("port",):
                    continue
                return f"{names[0]} is required", EINVAL
        return (self._check_values(statement, values) or self._check_objects(statement.verb, values)
                or None)

    def _report_unknown(self, verb: str, name: str) -> tuple[str, int]:
        if verb == "config":
            return (f"expected no attribute that begins with \"name\", got {name[:60]!r}; ldmsd "
                    "takes it for the name of the plugin's instance", EINVAL)
        return (f"LDMS {self.dialect.release} has no attribute {name[:60]!r}"
                + suggest(name, self.dialect.verbs[verb].attributes), EINVAL)

    def _check_values(self, statement: Statement, values: dict[str, str]) -> tuple[str, int] | None:
        text = ""
        verb, fields = statement.verb, {name: value for name, value in values.items()
                                        if "$" not in value or name == "regex"}
        if "port" in fields and not 0 < parse_integer(fields["port"]) < 1 << 16:
            text = f"port: expected 1 to 65535, got {fields['port'][:40]!r}"
        elif fields.get("xprt", "sock") not in TRANSPORTS:
            text = f"xprt: expected one of {', '.join(TRANSPORTS)}, got {fields['xprt'][:40]!r}"
        elif "regex" in fields and check_regex_syntax(fields["regex"]):
            text = f"regex: {check_regex_syntax(fields['regex'])} in {fields['regex'][:60]!r}"
        elif "name" in fields and len(fields["name"]) > _LONGEST_NAME:
            text = f"name: expected up to {_LONGEST_NAME} letters, got {len(fields['name'])}"
        elif verb in ("prdcr_add", "bridge_add", "advertiser_add"):
            text = self._check_producer(fields, values)
        elif verb in ("start", "updtr_add", "updtr_start", "setgroup_add"):
            text = check_schedule(fields) or check_mode(fields)
        elif verb == "strgp_add":
            return self._check_policy(fields)
        elif verb == "updtr_match_add" and fields.get("match", "inst") not in ("inst", "schema"):
            text = f"match: expected inst or schema, got {fields['match'][:40]!r}"
        elif verb in ("prdcr_subscribe", "prdcr_unsubscribe"):
            names = [name for name in ("stream", "message_tag", "message_channel")
                     if name in values]
            if len(names) != 1:
                text = f"expected one of stream and message_tag, got {', '.join(names) or 'none'}"
        elif verb == "prdcr_listen_add" and self.dialect.has(verb, "type"):
            text = check_listener(fields)
        elif verb == "metric_sets_default_authz" and not re.match(
                r"0*[0-7]{1,3}\Z", fields.get("perm", "0")):
            text = f"perm: expected an octal number up to 777, got {fields['perm'][:40]!r}"
        elif verb == "env" and not values:
            text = "expected NAME=VALUE"
        elif verb == "option":
            return self._check_option(statement)
        elif verb == "config" and not any(name != "name" for name in values):
            text = "expected attributes for the plugin"
        return (text, EINVAL) if text else None

    def _check_producer(self, fields: dict[str, str], values: dict[str, str]) -> str:
        kinds = ["active", "passive", "advertiser", "advertised"]
        if self.dialect.has("bridge_add"):
            kinds.append("bridge")
        kind = fields.get("type", "active").lower()
        if kind not in kinds:
            return f"type: expected one of {', '.join(kinds)}, got {kind[:40]!r}"
        if "port" not in values and (kind != "passive" or not self.dialect.has("bridge_add")):
            return "port is required"
        for name in ("reconnect", "interval"):
            if name in fields and (parse_interval(fields[name]) or 0) <= 0:
                return f"{name}: expected an interval above 0, got {fields[name][:40]!r}"
        if "rail" in fields and parse_integer(fields["rail"]) < 1:
            return f"rail: expected a number above 0, got {fields['rail'][:40]!r}"
        return ""

    def _check_policy(self, fields: dict[str, str]) -> tuple[str, int] | None:
        text = ""
        if "schema" in fields and "regex" in fields:
            text = "expected one of schema and regex, got both"
        elif "schema" not in fields and "regex" not in fields:
            text = "schema or regex is required"
        elif "regex" in fields and "decomposition" not in fields:
            text = "decomposition is required with regex"
        elif "container" not in fields and self.dialect.release == "4.4":
            text = "container is required"
        elif "flush" in fields and parse_interval(fields["flush"]) is None:
            return f"flush: expected an interval such as 10s, got {fields['flush'][:40]!r}", ENOENT
        return (text, EINVAL) if text else None

    def _check_option(self, statement: Statement) -> tuple[str, int] | None:
        words = [name if value is None else f"{name}={value}"
                 for name, value in statement.attributes]
        if not words:
            return "expected an option of ldmsd", EINVAL
        option = self.dialect.options.get(words[0].partition("=")[0])
        if option is None:
            return (f"LDMS {self.dialect.release} takes no option {words[0][:40]!r} here"
                    + suggest(words[0], self.dialect.options), ENOENT)
        if option == "--publish_kernel":
            return None
        if len(words) < 2 and "=" not in words[0]:
            return f"{words[0]}: expected a value", ENOENT
        return None

    def _check_objects(self, verb: str, values: dict[str, str]) -> tuple[str, int] | None:
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
                return f"plugin {name[:60]!r} is already running", EBUSY
            self.started.add(name)
        elif verb == "stop":
            self.started.discard(name)
        elif verb == "listen":
            where = values["xprt"], values.get("port", "411"), values.get("host", "")
            if where in self.ports:
                return f"{where[0]} port {where[1]} is already in use", EEXIST
            self.ports.add(where)
        kind = _ADDS.get(verb)
        if kind:
            if name in self.there[kind]:
                return f"{kind} {name[:60]!r} exists already", EEXIST
            self.there[kind].add(name)
        return None
