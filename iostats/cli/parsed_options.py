"""
The options of each command, as attributes of the class that argparse puts them into.

parser.make_parser declares them to argparse: `bool` is a flag, `Text` an option with a value,
`list[str]` the arguments that are no options, `str` a single one, which may be left out where the
class has a default, `Optional[list[str]]` an option with several values;
the option of `state_dir` is --state-dir, that of `from_` --from.  The lists (ListOptions) and
EventsOptions have several names for an option, and so declare theirs themselves.
"""

from typing import Optional

Text = Optional[str]            # of an option that was not given: None


class ListOptions:
    """The options of all lists: `jobs`, `nodes`, `capacity`, `targets`, `quota`."""

    sort: Text
    limit: Text
    delimiter: Text
    units: Text
    config: Text
    format: list[str]
    long: bool
    helpformat: bool
    reverse: bool
    noheader: bool
    parsable: bool
    parsable2: bool
    noconvert: bool
    json: bool


class Times:
    """The options --since and --until."""

    since: Text
    until: Text


class JobsOptions(ListOptions, Times):
    users: list[str]
    accounts: list[str]
    partitions: list[str]
    clusters: list[str]
    jobs: list[str]
    states: list[str]
    names: list[str]
    used: list[str]
    all_users: bool
    all_runs: bool
    brief: bool
    hit: bool
    lost: bool


class ByFileSystem:
    file_system: Text


class TargetOptions(ListOptions, ByFileSystem):
    """The options of `targets` and `capacity`."""

    targets: list[str]
    services: bool


class QuotaOptions(ListOptions, ByFileSystem):
    names: list[str]


class NodesOptions(ListOptions, Times, ByFileSystem):
    nodes: list[str]
    apart: bool
    down: bool


class EventsOptions(Times):
    severity: Text
    job: Text
    cursor_file: Text
    root: Text
    config: Text
    lines: Text
    file_systems: list[str]
    nodes: list[str]
    kinds: list[str]
    servers: list[str]
    follow: bool
    reverse: bool
    explain: bool
    full: bool
    utc: bool
    json: bool
    quiet: bool
    local: bool


class RecordOptions:
    """The options that select the records of `report`, `why` and `diff`."""

    jobs: list[str]
    config: Text


class ReportOptions(RecordOptions, ByFileSystem):
    from_: Text
    latest: Text
    format: Text
    chart: Text
    output: Text
    html: Text
    all: bool
    tasks: bool
    long: bool
    explain: bool


class WhyOptions(RecordOptions):
    like: Text
    json: bool


class DiffOptions(RecordOptions):
    from_: Text
    all: bool
    json: bool


class TopOptions:
    by: Text
    config: Text
    every: Text
    fs: Text
    job_id: Text
    limit: Text
    root: Text
    show: Text
    sort: Text
    user: Text
    statsfile: Optional[list[str]]
    json: bool
    local: bool
    once: bool
    percent: bool


class QueryOptions:
    level: list[str]
    config: Text
    fs: Text
    job: Text
    limit: Text
    sort: Text
    user: Text
    csv: bool
    json: bool


class CollectorOptions:
    config: Text
    filename: Text
    host: Text
    log_format: Text
    maxtraps: Text
    pid_file: Text
    port: Text
    root: Text
    state_dir: Text
    daemon: bool
    quiet: bool
    site: bool


class ServerOptions:
    """The options of a job's server and of the site's server."""

    config: Text
    deadline: Text
    format: Text
    job: Text
    json: Text
    listen: Text
    log_format: Text
    nodes: Text
    output: Text
    secret: Text
    state_dir: Text
    explain: bool
    long: bool
    print_port: bool
    quiet: bool
    site: bool
    version: bool


class WebOptions:
    config: Text
    listen: Text
    log_format: Text
    socket: Text
    quiet: bool


class StoreOptions:
    file: Text
    config: Text
    rebuild: bool


class ImportOptions:
    config: Text
    files: list[str]
