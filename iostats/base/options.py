"""
The keys of site.cfg: purpose, allowed values and default.

    NodeSection, ...   the sections; their attributes are the keys, each declared here alone
    Sections           all sections, with their values; site.cfg is made from them
    OPTIONS            "section.key" -> Option
    RUN_TIME_OPTIONS   those that agents take from etcd as they run

The section of a sink is in its own module, and is of these kinds as well.
"""

from __future__ import annotations

from iostats.base.option_kinds import (
    Section,
    check_absolute_or_empty,
    check_address,
    check_header_name,
    check_path_prefix,
    check_printable,
    check_servers,
    check_store,
    choice_option,
    duration_option,
    list_options,
    make_words_check,
    number_option,
    option,
    path_option,
    split_days,
    split_methods,
    split_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


LONGEST_PAUSE_S = 3600          # between two sweeps; job_stats forget after 600 s by default
FORMATS = ("grid", "plain", "json", "csv", "markdown")
UNITS = ("binary", "decimal", "bytes")


class NodeSection(Section):
    """[node]: compute nodes: start, stop, prolog, epilog."""

    state_dir = option("", check_printable, "a directory", (
        "Where `start` stores its snapshot until `stop`, and a job's server its counts "
        "until its report is written; it must be the user's own.  Empty: a private directory with "
        "a name that others cannot guess, below /tmp."))
    job_id_variables = option(
        "SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID FLUX_JOB_ID COBALT_JOBID", str.split,
        "names of environment variables", (
        "Environment variables that hold the job id; the first one set applies.  With the "
        "default, every batch system known to iostats is queried after these."))
    file_systems = option("", str.split, "names of file systems, or globs of them", (
        "File systems whose counters are read, such as scratch snx1100*.  Empty: all."))
    retry_timeout = duration_option(60, (
        "How long `stop` tries to reach the server, with growing pauses; after that it stores "
        "the delta for a later `stop`."))
    reader = option("/run/iostats/reader.sock", check_printable, "a socket", (
        "The socket of the reader, which gives ordinary users the counters that only root may "
        "read.  Used when a counter file is not readable.  Empty: never."))
    public_dir = option("/run/iostats/start", check_printable, "a directory", (
        "Directory in which root's `start --public` stores a snapshot that the job's user can "
        "use but not change."))
    python = option("python3", check_printable, "a command", (
        "Python 3.9 or newer on the nodes, for `iostats run`."))
    hook_dir = path_option("/var/lib/iostats/node", "a directory", (
        "Directory in which prolog and epilog store the starts of a node's jobs, and the reports "
        "that wait for the site's server; owned by root, on the node's own disk."))
    hook_timeout = duration_option(0.9, (
        "Prolog and epilog end after this time, whether they are finished or not."))


class ServerSection(Section):
    """[server]: a job's server, and what all servers have in common."""

    host = option("", check_printable, "a host name", (
        "Host of the job's server; `stop --server` overrides it."))
    port_first = number_option(1, 65535, 20000, (
        "First of the ports that job ids are mapped to; exclude them from the kernel's ephemeral "
        "ports (sysctl net.ipv4.ip_local_port_range)."))
    port_last = number_option(1, 65535, 29999, "Last of these ports.")
    port_tries = number_option(1, 1000, 16, (
        "How many ports are tried if another program uses a job's first port."))
    deadline = duration_option(60, (
        "How long the server waits for the other nodes after the first `stop`."))
    max_message_bytes = number_option(1024, 1 << 30, 16 << 20, (
        "A larger message is refused unread."))
    max_nodes = number_option(1, 10_000_000, 100_000, (
        "A job may have up to this number of nodes; reports of more are refused."))
    max_connections = number_option(16, 1_000_000, 20_000, (
        "Above this number of open connections, idle ones are closed early."))
    idle_timeout = duration_option(10, (
        "A connection on which no complete message arrives for this time is closed."))
    clock_tolerance = duration_option(300, (
        "A message is refused as stale when its time differs more than this from the server's."))
    auth = option("secret", split_methods, "secret or munge, or both, the preferred one first", (
        "How nodes and server authenticate each other.  secret: by the job's secret, in a "
        "directory that they share.  munge: by munged, which runs on each of them; a server then "
        "accepts messages of its own user and of root only.  With both, a node uses the first "
        "that works, and a server accepts either."))
    munge_socket = option("", check_printable, "a socket", (
        "The socket of munged.  Empty: munge's own default."))
    munge_users = option("", str.split, "names or numbers of users", (
        "Users whose servers a node trusts with munge, besides its own user and root."))


class BatchSection(Section):
    """[batch]: the batch system."""

    system = option("", check_printable, "the name of one, such as slurm, or none", (
        "The batch system.  Empty: the one whose job id is in the environment."))


class RunSection(Section):
    """[run]: `iostats run`."""

    output = option("", check_printable, "a file", (
        "Where `iostats run` writes its report; %j is the job's id.  Empty: standard error."))
    start_timeout = duration_option(30, (
        "`iostats run` waits this long for its nodes to be ready, then starts its command; nodes "
        "that were not ready are missing in the report."))
    grace = duration_option(1, (
        "When the batch system ends a job (SIGTERM), its command has this time to end; after "
        "that the nodes read their counters even if it still runs."))
    deadline = duration_option(5, (
        "After that the nodes have this time to report; grace and deadline together must be "
        "shorter than the time until SIGKILL (Slurm: KillWait)."))


class SiteSection(Section):
    """[site]: the site's server."""

    host = option("", check_servers, "HOST or HOST:PORT", (
        "Where the site's server runs, HOST or HOST:PORT; all prologs and epilogs report to it.  "
        "Several, with commas between: the first that answers is used; the others are standbys, "
        "which are off as long as it runs (docs/how-to/ldms.md), or share its store in PostgreSQL "
        "(docs/how-to/postgresql.md)."))
    port = number_option(1, 65535, 19990, "The port of the site's server.")
    secret = option("/etc/iostats/site.secret", check_printable, "a file", (
        "The secret that the site's server and root on the nodes share; the same file on all of "
        "them, readable by root only."))
    store = option("/var/lib/iostats/site.sqlite", check_store,
                   "a file whose path begins with /, or postgresql://...", (
        "Where the site's server stores reports and records: a file of SQLite, or a PostgreSQL "
        "database, postgresql://[USER@]HOST[:PORT]/DATABASE (docs/how-to/postgresql.md)."))
    deadline = duration_option(300, (
        "How long the site's server waits for a job's other nodes after its first epilog, before "
        "it makes the record; later reports are added to it."))
    keep_reports_days = number_option(1, 3650, 7, (
        "How many days the nodes' reports are stored; a later report is refused."))
    keep_days = number_option(1, 36500, 365, "How many days records are stored.")
    series_days = option("30 365", split_days, "up to 4 numbers from 0 to 36500, none below the "
                                          "one before it", (
        "How many days time series of jobs and targets are stored "
        "(docs/explanation/time_lines.md): the last number.  At each number before it their "
        "intervals get four times as long.  0: none are stored."))
    show = option("", make_words_check("output", "home", "comment"),
                  "words out of: output home comment", (
        "Where the site's server shows a job's report.  output: at the end of the job's own output "
        "file.  home: in ~/.iostats/JOB.txt of a user who has that directory.  comment: a short "
        "form in the batch system's accounting, where every user can read it with sacct, unless "
        "slurm.conf and slurmdbd.conf have PrivateData=jobs."))
    comment_fields = option("AdminComment", str.split, "names of fields", (
        "Slurm's fields for the short form; the first one without another text is used."))
    readers = option("root", str.split, "names of users", (
        "Users who may read all records; others may read their own, where auth is munge."))
    mail_program = option("/usr/bin/mail", check_printable, "a command", (
        "The program with which `iostats mail` sends its mail."))
    relay_name = option("", check_printable, "a name", (
        "This server's name as a relay ([relay]), as in [relay_from] of the receivers.  Empty: "
        "this host's name without its domain."))
    relay_secrets = path_option("/etc/iostats/relay", "a directory", (
        "The secrets of [relay] and [relay_from], one for each: CLUSTER.secret here has the "
        "content of NAME.secret there; readable by the server's user only."))
    relay_spool_dir = path_option("/var/lib/iostats/relay", "a directory", (
        "Directory for relayed messages while a cluster's server is unreachable."))
    relay_spool_bytes = number_option(1 << 20, 1 << 40, 256 << 20, (
        "When more than this waits for one cluster, the oldest messages are dropped."))


class HarvestSection(Section):
    """[harvest]: the agents of storage servers."""

    job_id = option("%j", check_printable, "a form with one %j, such as %j or %j:%u:%H", (
        "The form of job ids in job_stats, as in jobid_name (lctl get_param jobid_name): %j the "
        "job, %e program, %u user, %g group, %H or %h host, %p process; and %s, the step of a "
        "Slurm job, which a TaskProlog has to put there.  I/O under an id of any other form "
        "belongs to (no job): cp.0, kworker."))
    interval = number_option(0, LONGEST_PAUSE_S, 0, (
        "On storage servers: seconds between two sweeps over job_stats; the same on all of them, "
        "so that they sweep at the same time, and at most a third of job_cleanup_interval.  0: "
        "chosen by the agent."))
    file_systems = option("", str.split, "names of file systems", (
        "File systems that are harvested.  Empty: all."))
    exports = choice_option("auto", ("auto", "yes", "no"), (
        "Whether agents read what each client does (exports/NID/stats).  auto: yes, but no longer "
        "once sweeps with it take more CPU than cpu_percent of the time between two of them."))
    spool_dir = path_option("/var/lib/iostats/harvest", "a directory", (
        "Directory for sweeps that wait for the site's server; on the storage server's own disk."))
    spool_bytes = number_option(1 << 20, 1 << 40, 64 << 20, (
        "When the waiting sweeps are larger than this, the oldest are dropped."))
    cpu_percent = number_option(1, 100, 25, (
        "A sweep uses up to this share of one core, on average."))


class EventsSection(Section):
    """[events]: events."""

    every = number_option(1, LONGEST_PAUSE_S, 10, (
        "On storage servers: seconds between two scans for errors outside the kernel's log, "
        "which is followed continuously."))
    kernel_log = choice_option("auto", ("auto", "kmsg", "journald", "no"), (
        "Source of the kernel's log.  kmsg: /dev/kmsg, readable by root.  journald: journalctl, "
        "for members of systemd-journal.  auto: the first readable one."))
    changelog_records = number_option(0, 10**12, 10_000_000, (
        "On an MDS: a user of a changelog that has not cleared this number of records is "
        "reported.  0: none is."))
    full_percent = number_option(0, 100, 90, (
        "On storage servers: a target with this share of its space or inodes in use is reported "
        "as nearly full.  0: none is."))
    max_kept = number_option(10, 100_000, 250, (
        "Maximum number of different events in ten seconds; further ones are only counted."))
    keep_days = number_option(1, 36500, 90,
                              "How many days the site's server stores events.")
    keep_count = number_option(1000, 100_000_000, 1_000_000, (
        "How many events the site's server stores at most, some 300 bytes each; beyond that the "
        "oldest are dropped."))
    on_critical = option("", check_absolute_or_empty, "a program whose path begins with /",
                         (
        "On the site's server: a program that receives critical events, as JSON on its standard "
        "input (docs/how-to/events.md); one runs at a time.  Empty: none."))
    on_critical_severity = choice_option("critical",
                                         ("info", "warning", "critical", "fatal"), (
        "The lowest severity of the events that it receives."))
    on_critical_user = option("", check_printable, "the name of a user", (
        "The program's user, if the site's server runs as root.  Empty: the server's user."))
    on_critical_timeout = duration_option(60, "The program is ended after this time.")


class ClientsSection(Section):
    """[clients]: the activity of nodes, by the exports of storage servers."""

    names = option("", check_absolute_or_empty, "a file whose path begins with /", (
        "On the site's server: the names of clients, a line `NID NAME` each, such as "
        "10.0.0.11@o2ib node11; a node may have several.  It is read again when it changes.  "
        "Other names come from /etc/hosts and DNS."))
    remove_suffixes = option("-ib0 -ib -opa -hsn0", split_words, (
        "ends of names, several with spaces between"), (
        "The interface in names of /etc/hosts and DNS: with -ib0, node11-ib0 is node11."))
    short_names = choice_option("yes", ("yes", "no"), (
        "yes: names of /etc/hosts and DNS without their domain, as most batch systems have "
        "them."))
    detail_hours = number_option(1, 24 * 366, 48, (
        "How many hours of client activity are stored by sweep, older ones by hour; at most "
        "keep_days."))
    keep_days = number_option(1, 36500, 90, "How many days client activity is stored.")
    jobs_interval = number_option(0, 3600, 60, (
        "If storage servers report clients: seconds between two queries of the batch system for "
        "all its jobs, by one command; it finds jobs without reports or job_stats, and those "
        "that had their nodes alone.  0: never."))


class CollectorSection(Section):
    """[collector]: `iostats collector`."""

    port = number_option(1, 65535, 8980, "The port of `iostats collector`.")
    host = option("localhost", check_printable, "a host name or an address", (
        "Host name or address to listen at, all addresses of a name.  Empty: all addresses of "
        "the machine."))
    maxtraps = number_option(3, 100_000, 250, (
        "getTraps returns up to this number of events in one answer; if there are more, the last "
        "one has their number."))
    keep = number_option(1, 100_000, 10_000, (
        "How many events the collector stores for later queries."))
    allow = option("127.0.0.0/8 ::1", split_words, (
        "addresses and ranges, several with spaces between"), (
        "Permitted clients: addresses and ranges of IPv4 and IPv6.  Each of them sees all "
        "events."))
    names = option("", split_words, "names, several with spaces between", (
        "Further host names that requests may use, such as a proxy's; this host's name, "
        "localhost and addresses are always accepted."))
    user = option("", check_printable, "the name of a user", (
        "User that the collector runs as when root starts it, after opening the files that only "
        "root may read.  Empty: it refuses to be started by root."))
    events_of = choice_option("machine", ("machine", "site"), (
        "machine: events of the machine where it runs, with no server.  site: those of the site's "
        "server."))
    state_dir = option("/var/lib/iostats-collector", check_absolute_or_empty, (
        "a directory whose path begins with /"), (
        "The directory in which its events outlast a restart.  Empty: in memory alone.  For users "
        "other than root and that of the systemd unit the default is "
        "$XDG_STATE_HOME/iostats/iostats-collector."))
    pid_file = path_option("/run/iostats-collector.pid", "a file", (
        "Where `iostats collector --daemon` writes its process id.  For users other than root the "
        "default is $XDG_STATE_HOME/iostats/iostats-collector.pid."))


class EtcdSection(Section):
    """[etcd]: where the description of the monitoring is."""

    endpoints = option("", split_words, "URLs with spaces between", (
        "The members of etcd, such as http://mgmt1:2379 http://mgmt2:2379, which has the "
        "description of the monitoring (docs/how-to/ldms.md).  Empty: site.cfg alone configures "
        "the agents."))
    prefix = option("", check_printable, "a name", (
        "The name of this cluster in etcd: all keys begin with /PREFIX/."))
    user = option("", check_printable, "a name",
                  "The user name for etcd.  Empty: without authentication.")
    password_file = option("", check_absolute_or_empty, "a file whose path begins with /", (
        "The user's password; readable by its owner only."))
    ca = option("", check_absolute_or_empty, "a file whose path begins with /", (
        "Certificates to verify etcd's with (PEM), for https.  Empty: the system's."))
    cert = option("", check_absolute_or_empty, "a file whose path begins with /", (
        "Client certificate (PEM), if etcd requires one."))
    key = option("", check_absolute_or_empty, "a file whose path begins with /", (
        "The certificate's key (PEM)."))


class LdmsSection(Section):
    """[ldms]: `iostats ldms`."""

    lease = number_option(3, 600, 5, (
        "Seconds after which other instances of `iostats ldms run` take over the groups of one "
        "that is down; four election timeouts of etcd (1 s by default) or more."))
    metrics = option("", check_printable, "HOST:PORT", (
        "Address of GET /metrics of `iostats ldms run` for Prometheus, such as 127.0.0.1:9465; "
        "everyone who can connect sees the names of all daemons.  Empty: none."))
    poll = number_option(1, 3600, 2, (
        "Seconds between two queries of `iostats ldms run` to a daemon; samplers of large "
        "clusters are queried less often (500 a second).  A lost connection is noticed at once."))
    connect_timeout = number_option(1, 600, 3, (
        "Seconds after which a daemon that does not accept a connection counts as down."))
    answer_timeout = number_option(1, 600, 5, (
        "Seconds after which a daemon that does not answer counts as hung: other aggregators "
        "take over its producers."))


class WebSection(Section):
    """[web]: `iostats web`."""

    listen = option("", check_printable, "HOST:PORT", (
        "Address for requests of the site's proxy to `iostats web`, such as 127.0.0.1:8990.  "
        "Empty: none."))
    socket = option("/run/iostats-web/web.sock", check_absolute_or_empty, (
        "a path that begins with /"), (
        "Local socket of `iostats web`; its user is the user of the connecting process.  Empty: "
        "none."))
    user_header = option("", check_header_name, "the name of a header", (
        "The header with the user's name that the site's proxy sets, such as X-Remote-User; the "
        "proxy must remove it from browsers' requests."))
    trusted = option("", split_words, "addresses, ranges and user:NAME with spaces between", (
        "Senders whose header is trusted: addresses and ranges of the proxy, and user:NAME of a "
        "proxy that uses the local socket.  If users can log in to this host, use the socket: "
        "each of them can connect to 127.0.0.1."))
    prefix = option("", check_path_prefix, "a path such as /iostats, or nothing", (
        "Path of the pages at the site's proxy."))
    address = option("", check_address,
                     "an address such as https://iostats.example.org/iostats", (
        "The URL of the pages in users' browsers, with the prefix: findings link to the "
        "documentation there, and each report ends with the URL of the job's page.  Empty: no "
        "pages; findings name the section of docs/reference/findings.md."))
    title = option("iostats", check_printable, "a text",
                   "Title of all pages.")
    every = number_option(1, 3600, 5, (
        "Seconds between two updates of a live page; viewers of the same page share one query to "
        "the site's server."))
    max_connections = number_option(16, 100_000, 1000, (
        "Above this number of open connections, a new one closes the one that has been idle "
        "longest; if none is idle, the answer is 503."))
    max_viewers = number_option(1, 100_000, 500, (
        "Maximum number of live pages at the same time; others are updated by reloading."))


class SecretSection(Section):
    """[secret]: the secret of a job."""

    dir = option("~/.iostats", check_printable, "a directory", (
        "Directory for the job's secret, shared by the nodes."))


class ReportSection(Section):
    """[report]: the tables of a report."""

    format = choice_option("grid", FORMATS, "The form of the tables.")
    units = choice_option("binary", UNITS, (
        "binary: 1 MiB = 1048576 bytes.  decimal: 1 MB = 1000000 bytes.  bytes: plain numbers."))
    columns = option("", str.split, "names of operations", (
        "Operations in the tables, in this order.  Empty: every operation that happened."))
    job_fields = option(
        "", check_printable, "names of fields, as `iostats jobs -e` lists them", (
        "The fields that `iostats jobs` shows, as for its option -o.  Empty: its default."))
    file_systems = option("", str.split, "names of file systems", (
        "File systems in the tables, in this order.  Empty: all."))
    quota_percent = number_option(0, 100, 90, (
        "On the site's server: a quota of a job's user, or of one of the user's groups, of which "
        "this share is in use at the job's end is in the job's report.  0: none is."))


class FindingsSection(Section):
    """[findings]: the findings of a report."""

    most = number_option(0, 100, 5, (
        "Maximum number of findings below the tables of a report, the most important first; 0: "
        "none.  docs/reference/findings.md has all rules."))
    off = option("", split_words, "names of rules, with spaces between", (
        "Rules that are switched off, such as cache_served."))
    from_seconds = duration_option(60, (
        "Shorter jobs get no findings, except for lost data and faults."))
    from_bytes = number_option(0, 1 << 60, 100 << 20, (
        "A file system has findings only if this many bytes were read and written on it, or "
        "from_operations were done."))
    from_operations = number_option(0, 1 << 60, 10_000, (
        "See from_bytes; also the least number of calls for a rule about calls."))
    large_bytes = number_option(0, 1 << 60, 4 << 30, (
        "Least number of bytes for the rules on data placement (one_ost, few_osts, one_node, "
        "random_reads, cache_served)."))
    from_percent = number_option(0, 10_000, 5, (
        "Least time of calls for a finding, in percent of the time of the job's tasks or of the "
        "run time on one node, if the release times them (2.14 and later)."))
    untimed_per_second = number_option(0, 1_000_000_000, 100, (
        "Least number of untimed calls a second for a finding, by each task (or CPU) of the job "
        "on average; four times as many reads, writes and stat()."))
    small_bytes = number_option(1, 1 << 40, 32 << 10, (
        "Reads and writes up to this mean are small, and bulk requests up to twice as much."))
    metadata_storm_per_second = number_option(1, 1_000_000_000, 5000, (
        "Requests to one MDT that are too many, a second on average: of all nodes together; a "
        "fifth of it for one node."))


class Sections:
    """The sections of site.cfg with the values in force, in the order of site.cfg."""

    def __init__(self) -> None:
        self.node = NodeSection()
        self.server = ServerSection()
        self.batch = BatchSection()
        self.run = RunSection()
        self.site = SiteSection()
        self.harvest = HarvestSection()
        self.events = EventsSection()
        self.clients = ClientsSection()
        self.collector = CollectorSection()
        self.etcd = EtcdSection()
        self.ldms = LdmsSection()
        self.web = WebSection()
        self.secret = SecretSection()
        self.report = ReportSection()
        self.findings = FindingsSection()


OPTIONS = {f"{section}.{key}": option for section, values in vars(Sections()).items()
           for key, option in list_options(type(values)).items()}

# What may change while an agent runs: the settings of its group in etcd, over site.cfg's
# (docs/how-to/ldms.md).
RUN_TIME_OPTIONS = {name: OPTIONS[name] for name in (
    "harvest.interval", "harvest.file_systems", "harvest.exports", "harvest.cpu_percent",
    "harvest.spool_bytes", "events.every", "events.max_kept")}


# Sections whose keys a site makes up; iostats/wire/relays.py understands the last two.
FREE_SECTIONS = {
    "labels": "What the tables call a file system: snx11001 = BW Home",
    "finding_text": "What findings advise here, and a link: small_writes = Ask us. https://hpc/io",
    "relay": "Clusters that receive their nodes' activity: o2ib2 = xepbs:19990 xe",
    "relay_from": "Relays that may send here, for whom: alkindi = gdata home; o2ib2 10.9.*@tcp5"}


def list_sections(options: Iterable[str]) -> list[str]:
    """Return the sections of "section.key", in their order, and those whose keys a site chooses."""
    return [*dict.fromkeys(name.partition(".")[0] for name in options), *FREE_SECTIONS]


SECTIONS = list_sections(OPTIONS)
