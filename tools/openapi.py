"""docs/reference/openapi.json and the tables of api.md, made from the operations of web/api.py."""
from __future__ import annotations

import inspect
import json
import re

import msgspec
import record_schema

from iostats.totals import record
from iostats.web import api

ABOUT = ("What the commands of iostats write with --json, with the rights of the pages: users get "
         "their own jobs, [site] readers all. Numbers that are not known are null, never 0. New "
         "members may be added within version 1; a reader ignores those it does not know.")
_SCHEMAS = "#/components/schemas/{name}"


def document():
    """The file, as json writes it."""
    _, schemas = msgspec.json.schema_components(
        [*(one.form for one in api.OPERATIONS), api.ApiProblem], ref_template=_SCHEMAS)
    schemas["JobRecords"]["properties"]["runs"]["items"] = {"$ref": _SCHEMAS.format(name="Record")}
    schemas["Record"] = {"title": "Record", "description": record_schema.TITLE,
                         **record_schema._object(record.Record)}
    return json.dumps({
        "openapi": "3.1.0",
        "info": {"title": "iostats", "version": "1", "description": ABOUT,
                 "license": {"name": "MIT", "identifier": "MIT"}},
        "servers": [{"url": api.PATH, "description": "below [web] prefix of site.cfg"}],
        "paths": {one.path: {"get": _operation(one)} for one in api.OPERATIONS},
        "components": {"schemas": dict(sorted(schemas.items()))}}, indent=1,
        ensure_ascii=False) + "\n"


def _operation(one):
    path = re.findall(r"{(\w+)}", one.path)
    return {
        "operationId": one.function.__name__, "summary": inspect.getdoc(one.function),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
              for name in path),
            *({"name": name, "in": "query", "description": api.PARAMETERS[name],
               "schema": {"type": "string"}} for name in one.parameters)],
        "responses": {
            "200": _answer(one.form.__name__, api.JSON, "the answer"),
            "default": _answer(
                "ApiProblem", "application/problem+json", "an error: 400 the address, 403 the user "
                "may not, 404 unknown, 503 the site's server")}}


def _answer(name, media_type, about):
    return {"description": about, "content": {
        media_type: {"schema": {"$ref": _SCHEMAS.format(name=name)}}}}


def operations_table():
    """One line for each operation."""
    def about(made):
        return " ".join(inspect.getdoc(made).split())
    return "\n".join(["| GET | answer | parameters |", "|---|---|---|", *(
        f"| `{api.PATH}{one.path}` | {about(one.function)} {about(one.form)} "
        f"| {', '.join(f'`{name}`' for name in one.parameters)} |" for one in api.OPERATIONS)])


def parameters_table():
    """One line for each parameter."""
    return "\n".join(["| parameter | meaning |", "|---|---|",
                      *(f"| `{name}` | {about} |" for name, about in api.PARAMETERS.items())])
