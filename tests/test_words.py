"""
Documents and messages are written in the words of docs/glossary.md.

The rules are a Vale style, .vale/iostats/Words.yml: a pattern, and what to write instead.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
import yaml

HOME = Path(__file__).resolve().parents[1]
RULES = yaml.safe_load((HOME / ".vale/iostats/Words.yml").read_text())["swap"]
PATTERN = re.compile(r"(?<![\w./-])(?:%s)(?![\w./-]\w)" % "|".join(
    re.sub(r"\((?!\?)", "(?:", rule).replace(" ", r"\s+") for rule in RULES), re.I)
# The glossary lists the words that are not used; the licences are other projects' words.
PAGES = sorted(str(page.relative_to(HOME)) for page in (
    *HOME.glob("*.md"), *HOME.glob("docs/**/*.md"), HOME / "site.cfg")
    if page.name not in ("glossary.md", "licences.md"))
MODULES = sorted(str(path.relative_to(HOME)) for room in ("iostats", "iostats_ldms", "packaging")
                 for path in HOME.glob(f"{room}/**/*.py"))


def words_in(text):
    """[(line, words)] of a text that the rules do not allow; code between backticks is not text."""
    text = re.sub(r"(?ms)^```.*?^```|`[^`\n]*`", lambda code: "\n" * code[0].count("\n"), text)
    return [(text.count("\n", 0, found.start()) + 1, found[0]) for found in PATTERN.finditer(text)]


def messages_of(source):
    """The texts of a module that users may see: strings with a blank, but no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
                  or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
                      and node.targets[0].attr == "__doc__")}
    fields = {id(node) for call in ast.walk(tree) if isinstance(call, ast.Call)
              and getattr(call.func, "id", "") == "namedtuple" for node in ast.walk(call)}
    return [(node.lineno, node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            and " " in node.value.strip() and id(node) not in docstrings | fields
            and not re.match(r"\s*(SELECT|CREATE|INSERT|UPDATE|DELETE) ", node.value)]


@pytest.mark.parametrize("page", PAGES)
def test_a_document_uses_the_words_of_the_glossary(page):
    assert [] == words_in((HOME / page).read_text(encoding="utf-8"))


def test_messages_and_help_texts_use_the_words_of_the_glossary():
    found = [(module, line, words) for module in MODULES
             for line, text in messages_of((HOME / module).read_text(encoding="utf-8"))
             for _, words in words_in(text)]
    assert [] == found


def comments_of(source):
    """[(line, text)] of the comments and docstrings of a module."""
    comments = [(token.start[0], token.string)
                for token in tokenize.generate_tokens(io.StringIO(source).readline)
                if token.type == tokenize.COMMENT]
    return comments + [(node.value.lineno, node.value.value) for node in ast.walk(ast.parse(source))
                       if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                       and isinstance(node.value.value, str)]


# Keys of messages and names of columns, as docstrings describe them.
KEYS = re.compile(r"\"(gone|heard)\"|^ *(gone|heard)(:|, back:|  +\S)", re.M)


def test_comments_and_docstrings_use_the_words_of_the_glossary():
    found = [(module, line, words) for module in MODULES
             for line, text in comments_of((HOME / module).read_text(encoding="utf-8"))
             for _, words in words_in(KEYS.sub("", text))]
    assert [] == found


@pytest.mark.parametrize("text, expected", [
    ("Nothing is known of job 99.", ["Nothing is known of"]),
    ("the storage servers that are heard", ["heard"]),
    ("a line is begun anew,\nand no agent has told of it", ["anew", "told"]),
    ("`told` is a name in code", []), ("the gondola was retold", [])])
def test_what_the_rules_find(text, expected):
    assert expected == [words for _, words in words_in(text)]


# Pronouns and participles: docs/glossary.md has the nouns for them, and the verbs of functions.
NO_NAMES = set("""one found its some most way taken wanted asked told said heard looked looks look
    came come went which these those them given others ours theirs mine gone kept forgotten
    alike anew
    """.split())
NO_FUNCTIONS = set("""forget tell told keep kept look looks take say said heard gone
    made named chosen ready quoted counted encoded sealed permitted restricted lasting
    active address advise ago ambiguous amounts anchor anchors answered array available away bar
    begun bits block body bounds broken busiest bytes cause causes cells clause cleanup clock
    cluster colour columns comment comments concerns connection counter cursor damaged decoded
    destination devices directories doubt earlier elapsed enough entries environment epilog
    exactly exceeds
    expected exports fault fewer field filled finding form gain gained grid harvested headline hook
    hooks host hosts html identity impossible index prolog script
    """.split())
NO_BEGINNING = re.compile(r"(Keep|Let|Nor|Nothing|Once|What|Who|Which|Of|When|Where|How|That|It)\b")
NO_NOUN = re.compile(r"_*of_\w+|(?!_*(is|are|may|has)_)\w+_of")   # nodes_of: list_nodes


def test_variables_are_nouns_and_functions_verbs():
    """But for fields of classes: some are those of messages and files."""
    wrong = []
    for module in MODULES:
        if not module.startswith("iostats"):
            continue
        nodes = list(ast.walk(ast.parse((HOME / module).read_text(encoding="utf-8"))))
        fields = {id(target) for node in nodes if isinstance(node, ast.ClassDef)
                  for line in node.body if isinstance(line, (ast.AnnAssign, ast.Assign))
                  for target in getattr(line, "targets", None) or [line.target]}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                is_wrong = node.id in NO_NAMES and id(node) not in fields
            elif isinstance(node, ast.arg):
                is_wrong = node.arg in NO_NAMES
            else:
                is_wrong = (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                            and "property" not in map(ast.unparse, node.decorator_list)
                            and bool(node.name.strip("_") in NO_FUNCTIONS
                                     or NO_NOUN.fullmatch(node.name)))
            if is_wrong:
                wrong.append(f"{module}:{node.lineno}")
    assert [] == wrong


def test_docstrings_begin_with_a_verb_or_a_noun():
    assert [] == [
        f"{module}:{node.lineno}" for module in MODULES if module.startswith("iostats")
        for node in ast.walk(ast.parse((HOME / module).read_text(encoding="utf-8")))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and NO_BEGINNING.match(ast.get_docstring(node) or "")]


# A number with such a name is a time or a size, so the name ends in its unit.
_MEASURES = {"age", "ahead", "delay", "elapsed", "every", "flush", "interval", "lag", "pause",
             "period", "retry", "size", "timeout", "ttl", "wait"}
# Counts of something else: entries of a table, the routers that a datagram may pass.
_COUNTS = {("iostats/harvest/time_lines/intake.py", "size"), ("iostats/sinks/gains.py", "size"),
           ("iostats/report/accounting_comment.py", "size"),
           ("iostats/sinks/ganglia/sender.py", "ttl")}


def numbers_without_units(source):
    """[(line, name)] of parameters and attributes that are numbers, and lack the unit of a time."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            stored = any("TypedDict" in ast.unparse(base) for base in node.bases)     # JSON keys
            named = [] if stored else [
                (item.target.id, item.annotation) for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = [(arg.arg, arg.annotation) for arg in (
                *node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if arg.annotation]
        else:
            continue
        found += [(node.lineno, name) for name, annotation in named
                  if name.rpartition("_")[2] in _MEASURES
                  and re.match(r"(Optional\[|Annotated\[)?(int|float|Seconds|Count)\b",
                               ast.unparse(annotation).strip("'"))]
    return found


def test_times_and_sizes_have_their_unit_in_the_name():
    found = [(module, line, name) for module in MODULES
             for line, name in numbers_without_units((HOME / module).read_text(encoding="utf-8"))
             if (module, name) not in _COUNTS]
    assert [] == found
