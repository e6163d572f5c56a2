"""
Statements of ldmsd's configuration language (version 4), and what each release accepts.

From the tables of verbs and attributes (req_str_id_table and attr_str_id_table in
ldmsd_request_util.c), and from the attributes that each handler in ldmsd_request.c reads, of 4.4.6,
4.5.3 and the main branch of August 2026.

A release refuses an attribute that its table lacks (errno 22), with any verb.  An attribute that
its table has, and the verb does not read, is accepted without effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from iostats.base.errors import UsageError


class Statement(NamedTuple):
    """A line of a configuration file, or a command on the control connection."""

    verb: str   # such as prdcr_add
    # ((name, value), ...) in order; a bare keyword has the value None
    attributes: tuple[tuple[str, str | None], ...]


def format_statement(statement: Statement) -> str:
    """
    Format a statement as a line of a configuration file.

    >>> format_statement(Statement("prdcr_start", (("name", "node-23"),)))
    'prdcr_start name=node-23'
    """
    return " ".join([statement.verb, *(name if value is None else f"{name}={value}"
                                       for name, value in statement.attributes)])


RELEASES = ("4.4", "4.5", "newer")

# verb: attributes.  "!": required; "+4.5": since that release; "*": others too, passed on as they
# are; "a|b": one attribute with two names.
_VERBS = """
advertiser_add          name! xprt! host! port! reconnect|interval! auth perm cache_ip rail+4.5 \
quota+4.5 rx_rate+4.5
advertiser_del          name!
advertiser_start        name! xprt host port reconnect|interval auth perm cache_ip rail+4.5 \
quota+4.5 rx_rate+4.5
advertiser_stop         name!
auth_add                name! plugin *
auth_del                name!
banner+4.5              mode|level!
bridge_add+4.5          name! xprt! host! port! reconnect|interval! auth perm cache_ip rail quota \
rx_rate
bridge_del+4.5          name!
bridge_start+4.5        name! reconnect|interval
bridge_stop+4.5         name!
config                  name! *
daemon
daemon_exit
daemon_name+4.5         name!
daemon_status
default_auth+4.5        plugin! *
default_quota+4.5       quota!
dump_cfg                path!
env                     *
exit
failover_config         host port xprt peer_name interval timeout_factor auto_switch
failover_peercfg_start
failover_peercfg_stop
failover_start
failover_status
failover_stop
greeting                name offset level test path
include                 path!
listen                  xprt! port host auth quota+4.5 rx_rate+4.5 *
load                    name! plugin+4.5
log_file+4.5            path!
log_level+4.5           level! name regex test
log_status+4.5          name
loglevel                level! name+4.5 regex+4.5 test
logrotate
memory+4.5              size!
metric_sets_default_authz  uid gid perm
msg_client_stats+4.5    reset
msg_disable+4.5
msg_enable+4.5
msg_stats+4.5           regex stream reset
oneshot                 name! time!
option                  *
pid_file+4.5            path!
plugn_sets              name
plugn_status
prdcr_add               name! type! xprt! host! port reconnect|interval! auth perm cache_ip \
rail+4.5 quota+4.5 rx_rate+4.5
prdcr_del               name!
prdcr_hint_tree         name
prdcr_listen_add        name! regex ip disable_start quota+4.5 rx_rate+4.5 rail+4.5 type+4.5 \
advertiser_xprt+4.5 advertiser_port+4.5 advertiser_auth+4.5 reconnect|interval+4.5 perm+4.5
prdcr_listen_del        name!
prdcr_listen_start      name!
prdcr_listen_stop       name!
prdcr_set_status        producer instance schema
prdcr_start             name! reconnect|interval
prdcr_start_regex       regex! reconnect|interval
prdcr_stats
prdcr_status            name summary+newer state+newer
prdcr_stop              name!
prdcr_stop_regex        regex!
prdcr_stream_status     regex!
prdcr_subscribe         regex! stream message_tag+4.5 message_channel+newer rx_rate+4.5
prdcr_unsubscribe       regex! stream message_tag+4.5 message_channel+newer
profiling+4.5           reset
profiling_disable+newer
profiling_enable+newer
publish_kernel+4.5      path
qgroup_config+4.5       quota reset_interval ask_interval ask_amount ask_mark
qgroup_info+4.5
qgroup_member_add+4.5   host! port xprt! auth
qgroup_member_del+4.5   host! port
qgroup_start+4.5
qgroup_stop+4.5
set_memory+4.5          size!
set_sec_mod             regex! uid gid perm
set_stats               summary
setgroup_add            name! producer interval offset
setgroup_del            name!
setgroup_ins            name! instance!
setgroup_rm             name! instance!
smplrp_add+newer        name! path
smplrp_del+newer        name!
smplrp_start+newer      name!
smplrp_stop+newer       name!
start                   name! interval|interval_us! offset exclusive_thread+4.5
stop                    name!
storage_queue+newer     depth|size!
storage_threads+newer   num|count|size!
stream_client_dump      reset+4.5
stream_disable
stream_enable+4.5
stream_status           reset+4.5
strgp_add               name! plugin! container schema regex decomposition flush|interval perm
strgp_del               name!
strgp_metric_add        name! metric!
strgp_metric_del        name! metric!
strgp_prdcr_add         name! regex!
strgp_prdcr_del         name! regex!
strgp_start             name!
strgp_status            name
strgp_stop              name!
subscribe               name!
term                    name!
thread_stats            reset+4.5
udata                   instance! metric! udata!
udata_regex             instance! regex! base! incr
update_time_stats       name reset+4.5 summary+newer
updtr_add               name! interval! offset push auto_interval perm
updtr_del               name!
updtr_match_add         name! regex! match
updtr_match_del         name! regex! match
updtr_match_list        name
updtr_prdcr_add         name! regex!
updtr_prdcr_del         name! regex!
updtr_start             name! interval offset auto_interval
updtr_status            name reset+4.5
updtr_stop              name!
updtr_task              name!
usage                   name
version
worker_threads+4.5      num|size!
xprt_stats              reset+4.5 level+4.5 hist_recalibrate+newer
"""
# The words for attributes of 4.4; +4.5, +newer: since then.
_WORDS = """
auth auto_interval auto_switch base cache_ip container decomposition disable_start flush gid host
incr instance interval interval_us ip level match metric name offset path peer_name perm plugin
port producer push reconnect regex schema stream string summary test time timeout_factor type udata
uid xprt
+4.5 advertiser_auth advertiser_port advertiser_xprt ask_amount ask_interval ask_mark
exclusive_thread message_tag mode num quota rail reset reset_interval rx_rate size
+newer count depth hist_recalibrate message_channel state
"""
# What the statement `option` takes: {its short form: its long one}.
_OPTIONS = {"-A": "--default_auth_args", "-a": "--default_auth", "-B": "--banner",
            "-k": "--publish_kernel", "-l": "--log_file", "-m": "--set_memory",
            "-n": "--daemon_name", "-P": "--worker_threads", "-r": "--pid_file",
            "-s": "--kernel_file", "-v": "--log_level", "-L": "--log_config"}
_OPTIONS_45 = {"-C": "--default_quota"}


class Verb(NamedTuple):
    """A verb of a release."""

    required: tuple[tuple[str, ...], ...]  # ((name, synonym ...), ...), one of each
    attributes: tuple[str, ...]            # all names that have an effect
    takes_others: bool                     # other attributes are passed on, for example to a plugin


class Dialect:
    """
    A release of ldmsd.

    Attributes:
        release: "4.4", "4.5" or "newer".
        verbs: {verb: Verb}.
        words: names of attributes that it does not refuse.
        options: {short or long form: long form} of the options that `option` takes.
    """

    def __init__(self, release: str) -> None:
        self.release = release
        self.verbs: dict[str, Verb] = {}
        for line in _VERBS.replace("\\\n", "").splitlines():
            verb, *attributes = line.split() or [""]
            name, _, since = verb.partition("+")
            if name and self._is_since(since):
                self.verbs[name] = self._make_verb(attributes)
        options = {**_OPTIONS, **(_OPTIONS_45 if self._is_since("4.5") else {})}
        self.options = {**options, **{name: name for name in options.values()}}
        self.words = set()
        since = ""
        for word in _WORDS.split():
            if word.startswith("+"):
                since = word[1:]
            elif self._is_since(since):
                self.words.add(word)

    def _is_since(self, since: str) -> bool:
        return not since or RELEASES.index(since) <= RELEASES.index(self.release)

    def _make_verb(self, attributes: Iterable[str]) -> Verb:
        required, known, takes_others = [], [], False
        for attribute in attributes:
            if attribute == "*":
                takes_others = True
                continue
            text, _, since = attribute.partition("+")
            if not self._is_since(since):
                continue
            names = text.rstrip("!").split("|")
            known += names
            if text.endswith("!"):
                required.append(tuple(names))
        return Verb(tuple(required), tuple(known), takes_others)

    def has(self, verb: str, attribute: str = "") -> bool:
        """True if the release has the verb, and `attribute` has an effect on it."""
        result = self.verbs.get(verb)
        return result is not None and (not attribute or attribute in result.attributes)

    @property
    def has_plugin_instances(self) -> bool:
        """True if a plugin can be loaded more than once, under different names."""
        return self.has("load", "plugin")


DIALECTS = {release: Dialect(release) for release in RELEASES}
NEWEST = DIALECTS[RELEASES[-1]]


DEFAULT_RELEASE = "4.5"


def get_dialect(text: str, key: str = "") -> Dialect:
    """
    Return the dialect of a release such as "4.4", "4.5.3" or "v4.5.1-rc.2"; later ones are "newer".

    `key`: the option or key, for the message.  Raises UsageError.
    """
    where = f"{key}: " if key else ""
    parts = text.strip().lstrip("vV").replace("-", ".").split(".")
    try:
        release = int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        if text == "newer":
            return DIALECTS["newer"]
        raise UsageError(f"{where}expected a release of LDMS such as 4.4 or 4.5, got {text[:40]!r}"
                         ) from None
    if release < (4, 4):
        raise UsageError(f"{where}LDMS {text[:40]} is not supported; there are: "
                         f"{', '.join(RELEASES)}")
    return DIALECTS["4.4" if release == (4, 4) else "4.5" if release == (4, 5) else "newer"]
