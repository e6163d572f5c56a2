"""
Maestro's etcd.yaml: where etcd's members are.

    cluster: orion
    members:
      - {host: orion-01, port: 2379}
      - {host: orion-02, port: 2379}

Maestro's README writes `members` once for each member, and the whole file twice; a YAML loader
takes the last one alone.  Here all count.  Maestro knows no TLS: the URLs are http.
"""

from __future__ import annotations

from iostats.ldms.description.document import NotADocument, document
from iostats.ldms.description.problems import Findings
from iostats.ldms.description.values import Value, integer, text

_PORT = 2379                       # etcd's, where none is written


def etcd_members(content: str, name: str = "FILE") -> list[str]:
    """The URLs of the members, each once, in written order; DescriptionError."""
    findings = Findings()
    found: dict[str, None] = {}
    try:
        root = document(content, findings)
        whole = Value(root, "", findings)
        if root.kind != "mapping":
            whole.problem(f"expected a mapping with members, got {whole.got()}")
        for key, node in root.pairs:
            if key.text != "members":
                continue
            for item in Value(node, key.text, findings).items("members"):
                url = _url(item)
                if url:
                    found[url] = None
        if not found and not findings.problem_count and root.kind == "mapping":
            whole.problem("expected members, a list of {host, port}")
    except NotADocument:
        pass
    findings.raise_if_any(name)
    return list(found)


def _url(value: Value) -> str:
    fields = value.fields(("host",), ("port",))
    host = text(fields.get("host"))
    port = integer(fields.get("port"), 1, 65535) or _PORT
    if not host:
        return ""
    if any(c in host for c in "/@?#[]"):
        fields["host"].problem(f"expected a host name or an address, got {value.got()}")
        return ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
