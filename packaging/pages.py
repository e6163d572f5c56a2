"""
Man pages and shell completion, from the documents that hold each command's help text.

    docs/reference/commands.md  ->  iostats(1), iostats-report(1), ...; completion
    docs/reference/site_cfg.md  ->  site.cfg(5)
    docs/reference/counters.md  ->  iostats-counters(7)

`tools/docs.py` writes these documents from the code, and a test compares them: so a man page is
what `--help` prints.  Standard library only: it runs where a package is built.

    python packaging/pages.py DIRECTORY     write them below DIRECTORY: man/, bash-completion/, ...
"""

import gzip
import os
import re
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFERENCE = os.path.join("docs", "reference")

Option = namedtuple("Option", "flags value meaning")
Option.__doc__ = """An option of a help text: ["-u", "--user"], "USERS", "of these users ..."."""

# Subcommands of iostats whose help is that of another program.
_SAME_AS = {"start": "client", "stop": "client", "mark": "client", "watch": "client",
            "show": "client", "doctor": "client", "harvest": "client", "server": "server"}
_HEADINGS = {"usage": "SYNOPSIS", "options": "OPTIONS", "examples": "EXAMPLES",
             "exit status": "EXIT STATUS"}


# -- reading the documents ------------------------------------------------------------------------

def read(name):
    """The text of a page of docs/reference."""
    with open(os.path.join(HERE, REFERENCE, name), encoding="utf-8") as file:
        return file.read()


def help_texts(document):
    """{"report": help text} of commands.md; "usage": that of iostats itself."""
    return {name: re.sub(r"(?m)^    ", "", text).strip("\n")
            for name, text in re.findall(r"<!-- ([\w-]+?)(?:-help)? -->\n(.*?)<!-- end -->",
                                         document, re.DOTALL)}


def summaries(usage):
    """{subcommand: what it does in some words} of the usage of iostats."""
    return {word: meaning for words, meaning in re.findall(
        r"(?m)^(?:usage:)? +iostats ([\w|]+).*?  +(\S.*)$", usage) for word in words.split("|")}


def options(text):
    """[Option] of a help text."""
    found = []
    for line in text.splitlines():
        start = re.match(r"  (-[\w-]+(?:, -[\w-]+)*)(?: (\S+(?: \S+)*))?(?: {2,}(.*))?$", line)
        if start:
            found.append(Option(start[1].split(", "), start[2] or "", start[3] or ""))
        elif found and re.match(r" {20,}\S", line):
            found[-1] = found[-1]._replace(meaning=f"{found[-1].meaning} {line.strip()}".strip())
    return found


# -- man pages ------------------------------------------------------------------------------------

def man_page(name, section, summary, text):
    """A page in the macros of man(7), of a help text."""
    lines = [f'.TH "{name.upper()}" {section} "" "iostats" "iostats"', ".SH NAME",
             f"{_escaped(name)} \\- {_escaped(summary)}"]
    text, *parts = re.split(r"(?m)^### (.*)$", text)
    text = text.replace("usage:", "usage:\n      ", 1)
    blocks = re.split(r"(?m)^([a-z][a-z ]*):\s*$", text)
    lines += _paragraphs(blocks[0]) and [".SH DESCRIPTION", *_paragraphs(blocks[0])]
    for heading, block in zip(blocks[1::2], blocks[2::2]):
        if heading != "usage":
            lines += [f'.SH "{_HEADINGS.get(heading, heading.upper())}"', *_paragraphs(block)]
            continue
        usage, _, rest = block.strip("\n").partition("\n\n")
        lines += [".SH SYNOPSIS", ".nf", *(_escaped(line.strip()) for line in usage.splitlines()),
                  ".fi"]
        if rest:
            lines += [".SH DESCRIPTION", *_paragraphs(rest)]
    for heading, part in zip(parts[0::2], parts[1::2]):         # subcommands, as --help prints them
        lines += [f'.SH "{_escaped(heading.upper())}"', ".nf",
                  *(_escaped(line) for line in part.strip("\n").splitlines()), ".fi"]
    lines += [".SH SEE ALSO", "\\fBiostats\\fP(1), \\fBiostats-counters\\fP(7), "
                              "\\fBsite.cfg\\fP(5)"]
    return "\n".join(lines) + "\n"


def table_page(name, section, summary, document):
    """A page of a document with tables: a paragraph for each row."""
    lines = [f'.TH "{name.upper()}" {section} "" "iostats" "iostats"', ".SH NAME",
             f"{_escaped(name)} \\- {_escaped(summary)}", ".SH DESCRIPTION"]
    header = []
    for line in re.sub(r"<!--.*?-->\n?", "", document).splitlines():
        if line.startswith("# "):
            continue
        if line.startswith("#"):
            lines.append(f'.SH "{_escaped(line.lstrip("# "))}"')
        elif line.startswith("|"):
            cells = [_plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if set("".join(cells)) <= set("-: "):
                continue
            if not header:
                header = cells
                continue
            facts = "; ".join(f"{title}: {cell}" for title, cell in
                              zip(header[1:-1], cells[1:-1]) if cell)
            lines += [".TP", f"\\fB{_escaped(cells[0])}\\fP"]
            lines += "\n.br\n".join(_escaped(text) for text in (facts, cells[-1])
                                    if text).splitlines() or ["\\&"]
        else:
            header = header if line else []
            lines += [".PP"] * bool(re.match(r"[*-] |\d+\. ", line))
            lines.append(_escaped(_plain(line)) if line else ".PP")
    return "\n".join(lines) + "\n"


def _paragraphs(block):
    """Lines of man(7) for the text of a help: options as tagged paragraphs, the rest as it is."""
    lines, is_literal = [], False
    for line in block.strip("\n").splitlines():
        tagged = re.match(r"  (-[\w-].*?)(?:  +(\S.*))?$", line)
        literal = bool(re.match(r" {2,}", line)) and not tagged and not re.match(r" {20,}", line)
        if literal != is_literal:
            lines.append(".nf" if literal else ".fi")
            is_literal = literal
        if tagged:
            lines += [".TP", f"\\fB{_escaped(tagged[1])}\\fP", _escaped(tagged[2] or "\\&")]
        else:
            lines.append(_escaped(line if literal else line.strip()) or ".PP")
    return lines + [".fi"] * is_literal


def _plain(text):
    """Markdown without its marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("\\|", "|")


def _escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


# -- completion -----------------------------------------------------------------------------------

# The commands that list jobs, nodes and file systems of the site, if its server answers in time:
# each takes 0.1 s of a free CPU, nearly all for the start of Python.
_LIST = {what: f"timeout 0.3 iostats {query} 2>/dev/null" for what, query in (
    ("jobs", "jobs -n -P -o JobID"), ("nodes", "nodes -n -P -o node"),
    ("fs", "capacity -n -P -o FileSystem"))}
# Commands with such arguments, and options with such values.
_ARGUMENTS = {"report": "jobs", "why": "jobs", "diff": "jobs", "nodes": "nodes"}
_VALUES = {"--fs": "fs", "-j": "jobs", "--job": "jobs", "--jobs": "jobs"}

_BASH = """\
# Completion of iostats, for bash; zsh loads it by bashcompinit.
_iostats_words() {
    case $1 in
%(cases)s    esac
}

_iostats_site() {
    case $1 in
%(lists)s    esac
}

_iostats() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words
    if [ "$COMP_CWORD" = 1 ]; then
        words="%(commands)s"
    else
        case ${COMP_WORDS[COMP_CWORD-1]} in
%(values)s        *)
            case $word in
            -*) words=$(_iostats_words "$command") ;;
            *)
                case $command in
%(arguments)s                esac ;;
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}
complete -F _iostats iostats
"""


def bash_completion(texts, meanings):
    """The script of bash; `texts`: help_texts(); `meanings`: summaries()."""
    cases = []
    for name in sorted(meanings):
        flags = [flag for option in options(_text_of(name, texts)) for flag in option.flags
                 if flag.startswith("--")]
        cases.append(f"    {name}) echo '{' '.join(flags)}' ;;\n")
    return _BASH % {
        "lists": "".join(f"    {what}) {command} ;;\n" for what, command in _LIST.items()),
        "values": _cases(8, _VALUES), "arguments": _cases(16, _ARGUMENTS),
        "cases": "".join(cases), "commands": " ".join(sorted(meanings))}


def _cases(indent, lists):
    return "".join(f"{' ' * indent}{word}) words=$(_iostats_site {what}) ;;\n"
                   for word, what in lists.items())


def zsh_completion(texts, meanings):
    return ("#compdef iostats\nautoload -U +X bashcompinit && bashcompinit\n"
            + bash_completion(texts, meanings))


def fish_completion(texts, meanings):
    lines = ["# Completion of iostats, for fish.", "complete -c iostats -f", *(
        f"complete -c iostats -n '__fish_seen_subcommand_from {command}' -a '({_LIST[what]})'"
        for command, what in _ARGUMENTS.items()),
        "complete -c iostats -n '__fish_seen_subcommand_from import report why diff' -F"]
    for name, meaning in sorted(meanings.items()):
        lines.append(f"complete -c iostats -n __fish_use_subcommand -a {name} -d "
                     f"{_fish_quoted(meaning)}")
        for option in options(_text_of(name, texts)):
            flags = " ".join(f"{'-l' if flag.startswith('--') else '-s'} {flag.lstrip('-')}"
                             for flag in option.flags)
            lines.append(f"complete -c iostats -n '__fish_seen_subcommand_from {name}' {flags}"
                         f"{_fish_value(option)} -d {_fish_quoted(option.meaning)}")
    return "\n".join(lines) + "\n"


def _fish_value(option):
    """The words of `complete` for the value of an option: a list of the site, or a file."""
    lists = [_LIST[_VALUES[flag]] for flag in option.flags if flag in _VALUES]
    return (f" -x -a '({lists[0]})'" if lists else " -r") if option.value else ""


def _fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _text_of(name, texts):
    return texts.get(_SAME_AS.get(name, name), "")


# -- all of them ----------------------------------------------------------------------------------

def pages(library="/usr/local/lib/iostats"):
    """{path below share/: bytes} of all man pages and completions; `library`: as installed."""
    texts = help_texts(read("commands.md"))
    meanings = summaries(texts["usage"])
    found = {("man1", "iostats.1"): man_page("iostats", 1, "I/O of HPC jobs on Lustre",
                                             texts["usage"])}
    for name, text in texts.items():
        program = {"usage": "", "client": "iostats_client.py",
                   "server": "iostats_server.py"}.get(name, f"iostats-{name}")
        summary = {"client": "Lustre I/O of one job, on a compute node",
                   "server": "receives and adds up the reports of jobs' nodes"}.get(
            name, meanings.get(name, ""))
        if program:
            found["man1", f"{program}.1"] = man_page(program, 1, summary, text)
    found["man5", "site.cfg.5"] = table_page(
        "site.cfg", 5, "the configuration of iostats", read("site_cfg.md"))
    found["man7", "iostats-counters.7"] = table_page(
        "iostats-counters", 7, "the counters that iostats reports", read("counters.md"))
    shares = {f"man/{directory}/{name}.gz": gzip.compress(
        text.replace("/usr/local/lib/iostats", library).encode(), mtime=0)
              for (directory, name), text in found.items()}
    shares["bash-completion/completions/iostats"] = bash_completion(texts, meanings).encode()
    shares["zsh/site-functions/_iostats"] = zsh_completion(texts, meanings).encode()
    shares["fish/vendor_completions.d/iostats.fish"] = fish_completion(texts, meanings).encode()
    return shares


def write_below(directory, *library):
    """Write all of them; [path]."""
    written = []
    for name, data in pages(*library).items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        written.append(path)
    return written


if __name__ == "__main__":
    write_below(sys.argv[1])
