"""docs/reference/record.schema.json, made from the classes of iostats/totals/record.py."""
from __future__ import annotations

import inspect
import json

from iostats.totals import record, record_part

TITLE = "The JSON record of one job"
ABOUT = ("What iostats_server.py --json writes. Numbers that are not known are null, never 0. New "
         "members may be added within schema 1; a reader ignores those it does not know.")


def text():
    """The file, as json writes it."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema",
             "$id": "https://iostats.example/record.schema.json",
             "title": TITLE, "description": ABOUT, **_object(record.Record)}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _object(cls):
    about = _descriptions(cls)
    return {"type": "object", "required": list(cls.__annotations__), "properties": {
        name: {**_type(annotation), **({"description": about[name]} if name in about else {})}
        for name, annotation in cls.__annotations__.items()}}


def _type(annotation):
    kind = annotation.removesuffix(" | None")
    if kind.startswith("list["):
        found = {"type": "array", "items": _type(kind[len("list["):-1])}
    elif kind.startswith("dict[str, "):
        found = {"type": "object", "additionalProperties": _type(kind[len("dict[str, "):-1])}
    elif kind in record.CLASSES:
        found = _object(record.CLASSES[kind])
    else:
        found = dict(record_part.LIMITS[kind])
    if kind != annotation:
        found["type"] = [found["type"], "null"]
    return found


def _descriptions(cls):
    """{member: text} of the comments of its fields, above them or on their lines."""
    found, above = {}, []
    for line in inspect.getsource(cls).splitlines():
        code, _, comment = line.strip().partition("# ")
        name = code.partition(":")[0]
        if name in cls.__annotations__ and (above or comment):
            found[name] = " ".join(" ".join([*above, comment]).split())
        above = [*above, comment] if comment and not code else []
    return found
