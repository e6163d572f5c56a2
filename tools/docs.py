"""
Write what the documents share with the code: tables, the help texts in docs/reference/commands.md,
site.cfg, docs/reference/record.schema.json and openapi.json, the statements that make a new store.

    python tools/docs.py            write them
    python tools/docs.py --check    say which are not up to date, and end with 1
"""

import importlib
import re
import sys
import textwrap
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HOME), str(HOME / "tools"), str(HOME / "packaging"), str(HOME / "benchmarks")]

import curves
import install
import openapi
import record_schema
import rooms

from iostats import sinks
from iostats.base import config as site
from iostats.cli import Options, commands
from iostats.events.kinds import KINDS as EVENT_KINDS
from iostats.events.kinds import SEVERITIES
from iostats.load import levels
from iostats.lustre.metric_meanings import EXPLAIN_ALWAYS, METRICS
from iostats.lustre.metrics import INSIDE, NOT_OPERATIONS
from iostats.lustre.server_metrics import SERVICE_METRICS, TARGET_METRICS
from iostats.report import job_fields, node_list
from iostats.sinks.prometheus import event_page, page
from iostats.store.tables import create_statements
from iostats.store.views import VIEWS
from iostats_ldms import cli as ldms


def counters_table():
    """One line for each metric."""
    lines = ["| metric | file | counter | field | unit | since | meaning | caveat |",
             "|---|---|---|---|---|---|---|---|"]
    lines += [f"| `{m.name}` | {m.source} | `{m.counter}` | {m.takes} | {m.unit} | {m.since} "
              f"| {m.meaning} | {m.caveat} |" for m in METRICS]
    return "\n".join(lines)


def server_metrics_table():
    """One line for each metric of a target or a service."""
    return "\n".join(["| of | metric | kind | meaning |", "|---|---|---|---|",
                      *(f"| {part} | `{metric.name}` | {metric.kind} | {metric.help} |"
                        for part, metrics in (("target", TARGET_METRICS),
                                              ("service", SERVICE_METRICS))
                        for metric in metrics)])


def not_operations():
    """The llite counters that no table shows."""
    return ", ".join(f"`{name}`" for name in sorted(
        name for name, why in NOT_OPERATIONS.items() if why == INSIDE or name in ("read", "write")))


def fields_table(fields):
    """One line for each field of a list."""
    lines = ["| -o, --sort | JSON | form | meaning |", "|---|---|---|---|"]
    lines += [f"| {one.column} | {'' if one.kind == 'note' else f'`{one.name}`'} "
              f"| {KINDS[one.kind]} | {one.help} |" for one in fields]
    return "\n".join(lines)


# Of a field's kind: what it is in JSON.
KINDS = {"text": "text, \"\" if unknown", "names": "array of texts",
         "count": "integer or null", "bytes": "integer or null: bytes",
         "time": "number or null: seconds since 1970", "duration": "number or null: seconds",
         "seconds": "the same", "yes": "true or false", "note": "not in JSON"}


def rooms_table():
    """What each room is for, as it says itself."""
    lines = ["| room | what it is for |", "|---|---|"]
    lines += [f"| `{room}/` | {first_paragraph(rooms.directory(room) / '__init__.py')} |"
              for room in rooms.order() if room in rooms.rooms()]
    return "\n".join(lines)


def first_paragraph(path):
    """Of a module's docstring, as one line."""
    return " ".join(rooms.doc(path).partition("\n\n")[0].split()).replace("|", "\\|")


def always():
    """What --explain says below every report."""
    return "\n".join(f"* {line}" for line in EXPLAIN_ALWAYS)


def event_kinds():
    """One line for each kind of event."""
    return "\n".join(["| kind | severity | what happened | why | what to do |",
                      "|---|---|---|---|---|",
                      *(f"| `{name}` | {kind.severity} {SEVERITIES[kind.severity]} "
                        f"| {kind.meaning}. | {kind.cause}. | {kind.what_to_do}. |"
                        for name, kind in EVENT_KINDS.items())])


def view_columns(view):
    """One line for each column of a view of the store."""
    return "\n".join(["| column | meaning |", "|---|---|",
                      *(f"| `{column.name}` | {column.comment} |" for column in view.columns)])


def sinks_table():
    """One line for each sink."""
    lines = ["| section of site.cfg | feeds | needs |", "|---|---|---|"]
    for name in sinks.list_names():
        sink = sinks.find_sink(name)
        needs = f"`pip install '.[{name}]'`" if sink.REQUIRES else ""
        lines.append(f"| `[{name}]` | {sink.ABOUT} | {needs} |")
    return "\n".join(lines)


def packages_table():
    """One line for each role whose packages come from PyPI, and for each sink."""
    extras = {f"`make install-{name}`": role.extras for name, role in install.ROLES.items()}
    extras.update({f"and `[{name}]` in site.cfg": (name,) for name in sinks.list_names()
                   if sinks.find_sink(name).REQUIRES})
    names = {what: [re.split("[<>=~;]", text)[0] for text in install.requirements(some)]
             for what, some in extras.items()}
    return "\n".join(["| for | packages |", "|---|---|",
                      *(f"| {what} | {', '.join(some)} |" for what, some in names.items() if some)])


def metrics_of_prometheus():
    """What GET /metrics has."""
    labels = ", ".join(f"`{label}`" for label in page.LABELS)
    rows = [(f"{name}_total", labels + ", `operation`" * (name == "lustre_job_stats"), help)
            for name, help in page.FAMILIES.items()]
    rows += [("lustre_job_lower_bound", labels, page.LOWER_BOUND)]
    rows += [(f"{name}_total", "`component`, `target`, `fs`", help)
             for name, help in page.REQUESTS.items()]
    rows += [(f"{name}_total", ", ".join(f"`{label}`" for label in page.list_labels(name)), help)
             for name, (_, help) in page.NODE_FAMILIES.items()]
    rows += [("lustre_client_lower_bound",
              ", ".join(f"`{label}`" for label in page.NODE_LABELS),
              page.NODE_LOWER_BOUND)]
    rows += [(f"iostats_finished_jobs_{name}_total",
              ", ".join(f"`{label}`" for label in page.FINISHED_LABELS), help)
             for name, help in page.FINISHED.items()]
    rows += [(name + "_total" * (kind == "counter"), ", ".join(f"`{one}`" for one in labels), help)
             for name, (kind, labels, help) in event_page.EVENT_FAMILIES.items()]
    rows += [("iostats_agent_up", "`node`", page.AGENT_UP),
             ("iostats_agent_sweep_timestamp_seconds", "`node`", page.AGENT_SWEEP),
             ("iostats_sweep_timestamp_seconds", "", page.SWEEP),
             ("iostats_sweep_age_seconds", "", page.AGE)]
    rows += [(name + "_total" * (kind == "counter"), "", help)
             for sink in sinks.list_names() for name, kind, help in sinks.find_sink(sink).NUMBERS]
    return "\n".join(["| metric | labels | |", "|---|---|---|",
                      *(f"| `{name}` | {labels} | {help} |" for name, labels, help in rows)])


def query_levels():
    """One line for each level of `iostats query`."""
    return "\n".join(["| | | |", "|---|---|---|",
                      *(f"| {one.letter} | {one.word} | {one.help} |" for one in levels.QUERIES)])


def load_levels():
    """What `by` of the method `load` may be."""
    names = [level.name for level in levels.OF_TOP]
    return f"`by`: {', '.join(names[:-1])} or {names[-1]} (`{names[0]}`)."


def find_commands():
    """The Options of each command by the name of its part in commands.md; "ldms NAME": LDMS'."""
    modules = {**commands.list_modules(), "client": "iostats.cli.node",
               "events": "iostats.cli.events",
               **{f"ldms {name}": f"iostats_ldms.cli.{name}" for name in ldms.SUBCOMMANDS}}
    del modules["ldms"]
    found = {}
    for name, module in modules.items():
        [found[name]] = [value for value in vars(importlib.import_module(module)).values()
                         if isinstance(value, type) and issubclass(value, Options) and value.HELP
                         and value.__module__ == module]
    return found


def help_parts():
    """{part of commands.md: a function that makes it}."""
    return {"usage": lambda: block(commands.format_overview()), "ldms-help": ldms_help,
            **{f"{name}-help": lambda options=options: block(options.format_help())
               for name, options in find_commands().items() if not name.startswith("ldms ")}}


def ldms_help():
    """The help of `iostats ldms` and of its subcommands, each below its name."""
    texts = [block(ldms.format_help())]
    for name, options in find_commands().items():
        if name.startswith("ldms "):
            texts += [f"### iostats {name}", block(options.format_help())]
    return "\n\n".join(texts)


def costs(results=None):
    """What iostats costs, of the tables that `make bench` has printed (benchmarks/results.txt)."""
    if results is None:
        results = (HOME / "benchmarks/results.txt").read_text()
    tables = curves.tables_of(results)

    def cell(title, row, column):
        [(headers, rows)] = [one for name, one in tables.items() if name.startswith(title)]
        [found] = [one for one in rows if one[0] == row]
        return found[headers.index(column)]

    def node(row, column="CPU ms"):
        return f"{float(cell('client: whole', row, column)):.0f} ms"

    def server(row):
        return f"{float(cell('server: 10000', row, 'CPU us/node')) / 1000:.2f} ms"
    forks = {cell("client: files", row, "forks") for row in ("start", "stop")}
    if forks != {"0"}:
        raise ValueError(f"expected no forks at start and stop, got {sorted(forks)}")
    sent = f"{int(cell('client: files', 'stop', 'bytes sent')) / 1000:.0f} kB"
    return "\n".join([
        f"| CPU time; {results.partition(', Linux')[0]} | measured | beside it |", "|---|---|---|",
        f"| `start`, and `stop`, on a node | {node('start')}, and {node('stop')}; no fork, "
        f"{sent} sent | bare Python interpreter: {node('python3 -I -S -c pass')} |",
        f"| a job's server, 10,000 nodes | {server('iostats')} a node; "
        f"{cell('server: 10000', 'iostats', 'peak MiB')} MiB | threads that check nothing: "
        f"{server('plain threads')} |",
        f"| storage server: 100,000 entries of job_stats, 1 % changed | "
        f"{cell('agent: ', '100,000', '1 % changed, CPU s')} s a sweep; "
        f"{cell('agent: ', '100,000', 'MiB')} MiB | reading and counting lines: "
        f"{cell('agent: ', '100,000', 'reading and counting')} s |"])


def block(text):
    """`text` as an indented block of Markdown."""
    return "\n".join(f"    {line}".rstrip() for line in text.strip("\n").split("\n"))


PARTS = {
    "docs/reference/api.md": {"api-operations": openapi.operations_table,
                              "api-parameters": openapi.parameters_table},
    "README.md": {"costs": costs},
    "docs/reference/counters.md": {"metrics": counters_table, "not-operations": not_operations,
                         "server-metrics": server_metrics_table, "explain": always},
    "docs/reference/commands.md": help_parts(),
    "docs/how-to/install.md": {"packages": packages_table},
    "docs/reference/events.md": {"kinds": event_kinds},
    "docs/how-to/harvest.md": {"query-levels": query_levels},
    "docs/reference/site_cfg.md": {"options": lambda: options_reference()},
    "docs/reference/wire.md": {"load-levels": load_levels},
    "docs/explanation/architecture.md": {"rooms": rooms_table},
    "docs/reference/views.md": {view.name: lambda view=view: view_columns(view)
                                for view in VIEWS},
    "docs/reference/jobs.md": {"fields": lambda: fields_table(job_fields.FIELDS)},
    "docs/how-to/clients.md": {"node-fields": lambda: fields_table(node_list.FIELDS)},
    "docs/how-to/sinks.md": {"sinks": sinks_table, "prometheus-metrics": metrics_of_prometheus},
}


# The keys that most sites change; of a sink it is the first, which turns it on.
IN_SITE_CFG = """
node.file_systems node.python server.auth site.host site.show site.readers site.keep_days
harvest.job_id harvest.interval events.on_critical clients.names collector.user collector.allow
etcd.endpoints etcd.prefix web.address web.user_header web.trusted web.prefix report.units
report.columns findings.off""".split()


def option_groups():
    """{section: {key: Option}} of all options, those of sinks too."""
    config = site.Config()
    sinks.add_sections(config)
    sections = {}
    for name, option in config.options.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = option
    return sections


def site_cfg(text):
    """`text`, site.cfg, with the options that most sites change, each with help and default."""
    chosen = {}
    for section, options in option_groups().items():
        first = next(iter(options)) if section in sinks.list_names() else None
        for key, option in options.items():
            if f"{section}.{key}" in IN_SITE_CFG or key == first:
                about = textwrap.wrap(option.help, 88)
                if _is_a_choice(option):
                    about.append(f"Allowed: {option.expected}.")
                chosen.setdefault(section, []).append(
                    "".join(f"# {line}\n" for line in about)
                    + f"#{key} = {option.default}".rstrip() + "\n")
    made = "".join(f"[{section}]\n\n" + "\n".join(keys) + "\n"
                   for section, keys in chosen.items())
    return text[:text.index("[node]")] + made + text[text.index("[labels]"):]


def options_reference():
    """A section for each section of site.cfg, with a row for each key."""
    lines = []
    for section, options in option_groups().items():
        lines += [f"## [{section}]", "", "| key | default | allowed | meaning |",
                  "|---|---|---|---|"]
        for key, option in options.items():
            cells = (f"`{key}`", f"`{option.default}`" if option.default else "",
                     option.expected if _is_a_choice(option) else "", option.help)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _is_a_choice(option):
    """True when not every text is allowed."""
    return not option.expected.startswith(("a directory", "a file", "a glob", "a host", "a socket",
                                           "a command", "a name", "names of"))


def renewed(text, parts):
    """`text` with the part between `<!-- NAME -->` and `<!-- end -->` replaced by make()."""
    for name, make in parts.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not marked.search(text):
            raise SystemExit(f"no place for {name}")
        part = make()
        text = marked.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)
    return text


WHOLE = {"site.cfg": site_cfg, "docs/reference/record.schema.json": lambda _: record_schema.text(),
         "docs/reference/openapi.json": lambda _: openapi.document(),
         **{f"iostats/store/new_store.{dialect}.sql":
            lambda _, dialect=dialect: create_statements(dialect)
            for dialect in ("sqlite", "postgresql")}}


def main():
    """Write or check all documents; the exit status."""
    stale = []
    for path, parts in {**PARTS, **WHOLE}.items():
        before = (HOME / path).read_text()
        after = parts(before) if callable(parts) else renewed(before, parts)
        if after != before:
            stale.append(path)
            if "--check" not in sys.argv:
                (HOME / path).write_text(after)
    for path in stale:
        print(f"{path}: {'not up to date' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
