"""
The keys of site.cfg: what each is for, what it may be, and what it is by default.

    OPTIONS            "section.key" -> Option, in the order of site.cfg, which is made from it
    RUN_TIME_OPTIONS   those that agents take from etcd as they run
    RENAMED            old keys

A sink's keys are in its own module, and are of these kinds as well.

Long because: it is one table, a row for each key.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LONGEST_PAUSE_S = 3600          # between two sweeps; job_stats forget after 600 s by default

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


def host_and_port(text: str) -> tuple[str, int | None]:
    """
    (host, port or None) of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT; else ValueError.

    >>> host_and_port("mgmt1:19990"), host_and_port("[fd00::5]")
    (('mgmt1', 19990), ('fd00::5', None))
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest[1:] if rest[:1] == ":" else rest
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError
    return host, int(port) if port else None


def _servers(value: str) -> str:
    """A check: servers with commas or spaces between."""
    for word in printable(value).replace(",", " ").split():
        host_and_port(word)
    return value


def words(value: str) -> list[str]:
    """A check: words with spaces between; a comma would be a part of one, and is never meant so."""
    if "," in value:
        raise ValueError
    return value.split()


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError
    return printable(value)


def _absolute_or_empty(value: str) -> str:
    return _absolute(value) if value else value


def _header_name(value: str) -> str:
    if value and not (value.isascii() and value.replace("-", "").isalnum()):
        raise ValueError
    return value


def _path_prefix(value: str) -> str:
    parts = value.rstrip("/").split("/")
    if value and (parts[0] or not all(part.isascii() and part.replace("-", "").replace(
            "_", "").replace(".", "").isalnum() for part in parts[1:])):
        raise ValueError
    return value.rstrip("/")


def _address(value: str) -> str:
    if (value and not value.startswith(("http://", "https://", "/"))) or " " in value:
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


def _days(value: str) -> list[int]:
    days = [_integer(0, 36500)(word) for word in value.split()]
    if not 1 <= len(days) <= 4 or days != sorted(days):
        raise ValueError
    return days


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
    "site.host": Option("", _servers, "HOST or HOST:PORT", (
        "Where the site's server runs, HOST or HOST:PORT; all prologs and epilogs report to it.  "
        "Several, with commas between: the first that answers is used; the others are standbys, "
        "which are off as long as it runs (docs/ldms.md).")),
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
    "site.series_days": Option("30 365", _days, "up to 4 numbers from 0 to 36500, none below the "
                               "one before it", (
        "How many days it is kept what jobs and targets did over time (docs/time_lines.md): the "
        "last number.  At each number before it, lines get four times as coarse.  0: not at "
        "all.")),
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
    "site.relay_name": Option("", printable, "a name", (
        "By what name this server relays to others ([relay]), as [relay_from] has it there.  "
        "Empty: this host's name without its domain.")),
    "site.relay_secrets": absolute_path("/etc/iostats/relay", "a directory", (
        "The secrets of [relay] and [relay_from], one for each: CLUSTER.secret here has the "
        "content of NAME.secret there; readable by the server's user only.")),
    "site.relay_spool_dir": absolute_path("/var/lib/iostats/relay", "a directory", (
        "Where what is to be relayed waits for a cluster's server that is away.")),
    "site.relay_spool_bytes": number(1 << 20, 1 << 40, 256 << 20, (
        "When more than this waits for one cluster, the oldest goes.")),
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
    "harvest.exports": choice("auto", ("auto", "yes", "no"), (
        "Whether agents read what each client does (exports/NID/stats).  auto: yes, but no longer "
        "once sweeps with it take more CPU than cpu_percent of the time between two of them.")),
    "harvest.spool_dir": absolute_path("/var/lib/iostats/harvest", "a directory", (
        "Where sweeps wait for the site's server; on the storage server's own disk.")),
    "harvest.spool_bytes": number(1 << 20, 1 << 40, 64 << 20, (
        "When the waiting sweeps are larger than this, the oldest are dropped.")),
    "harvest.cpu_percent": number(1, 100, 25, (
        "A sweep uses up to this share of one core, on average.")),
    "events.every": number(1, LONGEST_PAUSE_S, 10, (
        "On storage servers: seconds between two looks at what is told of errors besides the "
        "kernel's log, which is read as it comes.")),
    "events.kernel_log": choice("auto", ("auto", "kmsg", "journald", "no"), (
        "Where the kernel's log is read.  kmsg: /dev/kmsg, which root may read.  journald: by "
        "journalctl, which members of systemd-journal may ask.  auto: the first of them that can "
        "be read.")),
    "events.max_kept": number(10, 100_000, 250, (
        "Up to this number of different events are kept in ten seconds; of a flood with more, the "
        "rest is counted.")),
    "clients.names": Option("", _absolute_or_empty, "a file whose path begins with /", (
        "On the site's server: which node a client is, a line `NID NAME` each, such as "
        "10.0.0.11@o2ib node11; a node may have several.  It is read again when it changes.  What "
        "is not in it: /etc/hosts and DNS.")),
    "clients.remove_suffixes": Option("-ib0 -ib -opa -hsn0", words, (
        "ends of names, several with spaces between"), (
        "The interface in names of /etc/hosts and DNS: with -ib0, node11-ib0 is node11.")),
    "clients.short_names": choice("yes", ("yes", "no"), (
        "yes: names of /etc/hosts and DNS without their domain, as most batch systems have "
        "them.")),
    "clients.detail_hours": number(1, 24 * 366, 48, (
        "For how many hours what clients did is kept by sweep; after that by hour.  keep_days ends "
        "both, so more hours than it has change nothing.")),
    "clients.keep_days": number(1, 36500, 90, "How many days what clients did is kept."),
    "clients.jobs_interval": number(0, 3600, 60, (
        "Where storage servers tell of their clients, the site's server asks the batch system for "
        "all its jobs, by one command, with pauses of this many seconds: so it knows of jobs that "
        "have no report and no job_stats, and which of them had their nodes alone.  0: never.")),
    "events.keep_days": number(1, 36500, 90, "How many days the site's server keeps events."),
    "events.keep_count": number(1000, 100_000_000, 1_000_000, (
        "How many events the site's server keeps at most, some 300 bytes each; beyond that the "
        "oldest go.")),
    "events.on_critical": Option("", _absolute_or_empty, "a program whose path begins with /", (
        "On the site's server: a program that is told of critical events, as JSON on its standard "
        "input (docs/events.md); one runs at a time.  Empty: none.")),
    "events.on_critical_severity": choice("critical", ("info", "warning", "critical", "fatal"), (
        "It is told of events of this severity and above.")),
    "events.on_critical_user": Option("", printable, "the name of a user", (
        "Who it runs as, where the site's server is root.  Empty: the user of the server.")),
    "events.on_critical_timeout": duration(60, "If it runs longer than this, it is ended."),
    "collector.port": number(1, 65535, 8980, "The port of `iostats collector`."),
    "collector.host": Option("localhost", printable, "a host name or an address", (
        "Where it listens: at all addresses of this name.  Empty: at all addresses of the "
        "machine.")),
    "collector.maxtraps": number(3, 100_000, 250, (
        "getTraps gives up to this number of events in one answer; where there are more, the "
        "last one says how many.")),
    "collector.keep": number(1, 100_000, 10_000, (
        "How many events the collector keeps, for those who ask later.")),
    "collector.allow": Option("127.0.0.0/8 ::1", words, (
        "addresses and ranges, several with spaces between"), (
        "Who may ask: addresses and ranges of IPv4 and IPv6.  Everyone there sees all events.")),
    "collector.names": Option("", words, "names, several with spaces between", (
        "By which other names it is asked, such as those of a proxy; its host's own name, "
        "localhost and addresses always do.")),
    "collector.user": Option("", printable, "the name of a user", (
        "Whose rights the collector keeps when root starts it, once it has opened what only root "
        "may read.  Empty: it refuses to be started by root.")),
    "collector.events_of": choice("machine", ("machine", "site"), (
        "machine: events of the machine where it runs, with no server.  site: those of the site's "
        "server.")),
    "collector.state_dir": Option("/var/lib/iostats-collector", _absolute_or_empty, (
        "a directory whose path begins with /"), (
        "The directory in which its events outlast a restart.  Empty: in memory alone.  For users "
        "other than root and that of the systemd unit the default is "
        "$XDG_STATE_HOME/iostats/iostats-collector.")),
    "collector.pid_file": absolute_path("/run/iostats-collector.pid", "a file", (
        "Where `iostats collector --daemon` writes its process id.  For users other than root the "
        "default is $XDG_STATE_HOME/iostats/iostats-collector.pid.")),
    "etcd.endpoints": Option("", words, "URLs with spaces between", (
        "The members of etcd, such as http://mgmt1:2379 http://mgmt2:2379: where the description "
        "of the monitoring is (docs/ldms.md); none: site.cfg alone says what agents do.")),
    "etcd.prefix": Option("", printable, "a name", (
        "The name of this cluster in etcd: all keys begin with /PREFIX/.")),
    "etcd.user": Option("", printable, "a name", "The user of etcd; none: etcd asks for none."),
    "etcd.password_file": Option("", _absolute_or_empty, "a file whose path begins with /", (
        "The user's password; readable by its owner only.")),
    "etcd.ca": Option("", _absolute_or_empty, "a file whose path begins with /", (
        "Certificates that etcd's are checked by (PEM), for https; none: the system's.")),
    "etcd.cert": Option("", _absolute_or_empty, "a file whose path begins with /", (
        "Our certificate (PEM), where etcd wants one.")),
    "etcd.key": Option("", _absolute_or_empty, "a file whose path begins with /", (
        "The certificate's key (PEM).")),
    "ldms.lease": number(3, 600, 5, (
        "Seconds after which other instances of `iostats ldms run` take the groups of one that is "
        "gone; four election timeouts of etcd (1 s by default) or more.")),
    "ldms.metrics": Option("", printable, "HOST:PORT", (
        "Where `iostats ldms run` answers GET /metrics for Prometheus, such as 127.0.0.1:9465; "
        "everyone who can connect sees the names of all daemons.  Empty: nowhere.")),
    "ldms.poll": number(1, 3600, 2, (
        "Seconds between two questions of `iostats ldms run` to a daemon; samplers of large "
        "clusters are asked less often (500 a second).  A connection that is lost is seen at "
        "once.")),
    "ldms.connect_timeout": number(1, 600, 3, (
        "Seconds after which a daemon that does not take a connection counts as down.")),
    "ldms.answer_timeout": number(1, 600, 5, (
        "Seconds after which a daemon that does not answer counts as hung: its producers are "
        "given to others.")),
    "web.listen": Option("", printable, "HOST:PORT", (
        "Where `iostats web` is asked by the site's proxy, such as 127.0.0.1:8990.  Empty: at no "
        "port.")),
    "web.socket": Option("/run/iostats-web/web.sock", _absolute_or_empty, (
        "a path that begins with /"), (
        "A local socket of `iostats web`: who asks there is the user of the program that does.  "
        "Empty: none.")),
    "web.user_header": Option("", _header_name, "the name of a header", (
        "The header in which the site's proxy says who is asking, such as X-Remote-User; the proxy "
        "must remove what a browser sends by that name.")),
    "web.trusted": Option("", words, "addresses, ranges and user:NAME with spaces between", (
        "From where that header is taken: addresses and ranges of the proxy, and user:NAME of a "
        "proxy that asks by the local socket.  Where users can log in to this host, it is the "
        "socket: every one of them can connect to 127.0.0.1.")),
    "web.prefix": Option("", _path_prefix, "a path such as /iostats, or nothing", (
        "Below which path the site's proxy shows the pages.")),
    "web.address": Option("", _address, "an address such as https://iostats.example.org/iostats", (
        "The URL of the pages in users' browsers, with the prefix: findings link to the "
        "documentation there, and each report ends with the URL of the job's page.  Empty: no "
        "pages; findings name the section of docs/advice.md.")),
    "web.title": Option("iostats", printable, "a text", "What stands in the head of each page."),
    "web.every": number(1, 3600, 5, (
        "Seconds between two updates of a live page; all who see the same are one question to the "
        "site's server.")),
    "web.max_connections": number(16, 100_000, 1000, (
        "From this number of open connections on, a new one ends the one that has been silent "
        "longest; where none is silent, it is answered 503.")),
    "web.max_viewers": number(1, 100_000, 500, (
        "How many live pages are shown at the same time; others are updated by reloading.")),
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
    "advice.most": number(0, 100, 5, (
        "Up to this number of findings are below the tables of a report, the most important ones; "
        "0: none.  docs/advice.md has all rules.")),
    "advice.off": Option("", words, "names of rules, with spaces between", (
        "Rules that are switched off, such as cache_served.")),
    "advice.from_seconds": duration(60, (
        "Shorter jobs get no findings, but for lost data and faults.")),
    "advice.from_bytes": number(0, 1 << 60, 100 << 20, (
        "A file system has findings only if this was read and written on it, or from_operations "
        "were done.")),
    "advice.from_operations": number(0, 1 << 60, 10_000, (
        "See from_bytes; also how many calls of its kind a rule about calls wants to see.")),
    "advice.noise_percent": number(0, 10_000, 5, (
        "If the nodes' own I/O (daemons, health checks) is this part of a number, in percent, a "
        "note says so, and rules take it off.")),
    "advice.large_bytes": number(0, 1 << 60, 4 << 30, (
        "Rules on where data is (one_ost, one_node, random_reads, cache_served) are about this "
        "and more.")),
    "advice.from_percent": number(0, 10_000, 5, (
        "Calls that take less of the nodes' time, in percent, are no finding, where the release "
        "times them (2.14 and later).")),
    "advice.untimed_per_second": number(0, 1_000_000_000, 100, (
        "Where calls are not timed: fewer of them in a second, on each node on average, are no "
        "finding.")),
    "advice.small_reads_bytes": number(1, 1 << 40, 32 << 10, (
        "Reads are small up to this mean.")),
    "advice.small_writes_bytes": number(1, 1 << 40, 32 << 10, (
        "Writes are small up to this mean.")),
    "advice.small_requests_bytes": number(1, 1 << 40, 64 << 10, (
        "Bulk requests to storage servers are small up to this mean.")),
    "advice.many_opens_bytes": number(1, 1 << 40, 1 << 20, (
        "Opens are many if less is read and written for each.")),
    "advice.repeated_opens_percent": number(1, 100, 50, (
        "Opens are repeated if this share of them is of files that the node had open before.")),
    "advice.metadata_storm_per_second": number(1, 1_000_000_000, 5000, (
        "Requests of all nodes to one MDT in a second, on average.")),
    "advice.metadata_storm_node_per_second": number(1, 1_000_000_000, 1000, (
        "Requests of one node to one MDT in a second, on average.")),
    "advice.one_mdt_per_second": number(1, 1_000_000_000, 1000, (
        "With fewer requests of all nodes in a second, one MDT is enough.")),
    "advice.one_mdt_percent": number(1, 100, 90, (
        "One MDT takes most if it has this share of the requests.")),
    "advice.one_ost_percent": number(1, 100, 80, (
        "One OST takes most if it has this share of the bytes.")),
    "advice.one_node_percent": number(1, 100, 90, (
        "One node does all if it has this share of the bytes.")),
    "advice.one_node_nodes": number(2, 1_000_000, 4, (
        "That is a finding of jobs with this number of nodes and more.")),
    "advice.polling_percent": number(1, 100, 50, (
        "A job polls if in this share of its time there were operations and no bytes.")),
    "advice.polling_per_second": number(1, 1_000_000_000, 10, (
        "And as many operations, opens and stat() mostly, in each second of that.")),
    "advice.flock_count": number(1, 1 << 60, 1000, (
        "With fewer locks (flock, fcntl), waiting for them is no finding.")),
    "advice.random_reads_times": number(1, 1_000_000, 2, (
        "Reads are scattered if this times the bytes that programs read come from the OSTs.")),
    "advice.slow_servers_ms": number(1, 1_000_000, 100, (
        "Storage servers are slow if a bulk request takes this on average.")),
    "advice.cache_served_percent": number(1, 100, 90, (
        "Reads are served by the nodes' memory if this share of them did not come over the "
        "network.")),
    "advice.time_percent": number(1, 10_000, 50, (
        "Time in Lustre is a finding from this share of the nodes' time on; with several threads "
        "it may be more than 100.")),
}

# What may change while an agent runs: the settings of its group in etcd, over site.cfg's
# (docs/ldms.md).  Old keys of RENAMED stand for the new ones there, too.
RUN_TIME_OPTIONS = {name: OPTIONS[name] for name in (
    "harvest.interval", "harvest.file_systems", "harvest.exports", "harvest.cpu_percent",
    "harvest.spool_bytes", "events.every", "events.max_kept")}


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

# Sections whose keys a site makes up; iostats/wire/relays.py understands the last two.
FREE_SECTIONS = {
    "labels": "What the tables call a file system: snx11001 = BW Home",
    "advice_text": "What findings advise here, and a link: small_writes = Ask us. https://hpc/io",
    "relay": "Clusters that are told what their nodes do: o2ib2 = xepbs:19990 xe",
    "relay_from": "Relays that may send here, for whom: alkindi = gdata home; o2ib2 10.9.*@tcp5"}


def sections_of(options: Iterable[str]) -> list[str]:
    """Sections of "section.key", in their order, and those whose keys a site makes up."""
    return [*dict.fromkeys(name.partition(".")[0] for name in options), *FREE_SECTIONS]


SECTIONS = sections_of(OPTIONS)
