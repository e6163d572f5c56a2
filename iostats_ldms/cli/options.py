"""The options of `iostats ldms`, by command: iostats/cli/parsed_options.py describes the form."""

from iostats.cli.parsed_options import Text


class CheckOptions:
    files: list[str]


class GenerateOptions:
    files: list[str]
    ldms: Text
    daemon: Text
    output = ""                 # the command has -o for it, too
    bare: bool
    force: bool


class EtcdOptions:
    config: Text
    etcd: Text
    prefix: Text


class StatusOptions(EtcdOptions):
    watch: bool
    json: bool
    all: bool


class LoadOptions(EtcdOptions):
    file: str
    note: Text
    dry_run: bool


class HistoryOptions(EtcdOptions):
    number: str = ""
    json: bool


class RollbackOptions(EtcdOptions):
    number: str = ""
    note: Text
    dry_run: bool


class PlanOptions(EtcdOptions):
    files: list[str]
    all: bool


class RunOptions(EtcdOptions):
    files: list[str]
    poll: Text
    metrics: Text
    log_format: Text
    once: bool
