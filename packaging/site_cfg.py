"""
/etc/iostats/site.cfg and the secret, as `make install-...` writes them; edited ones stay.
"""

import filecmp
import os
import re

from place import ETC, Failed, copy, write

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def written(name, place):
    """
    /etc/iostats/site.cfg and the secret; the Config that applies.

    PREFIX/lib/iostats/site.cfg is what was installed last: where /etc/iostats/site.cfg still is
    the same, it was not edited.
    """
    from iostats.base import config as site
    from iostats.base.errors import ConfigError
    with open(f"{HERE}/site.cfg", encoding="utf-8") as file:
        shipped = file.read()
    theirs, last = place.staged(ETC, "site.cfg"), place.staged(place.lib, "site.cfg")
    os.makedirs(os.path.dirname(theirs), exist_ok=True)
    os.chmod(os.path.dirname(theirs), 0o755)
    wanted, edited = {}, os.path.lexists(theirs) and is_edited(theirs, last)
    if edited:
        print(f"{theirs}: kept, it was edited;\n  this release's is {place.lib}/site.cfg")
    elif os.path.lexists(theirs):
        try:
            wanted = _chosen(theirs)
        except ConfigError as error:
            raise Failed(str(error)) from error
        host = wanted.get("site.host", "")
        wanted.update(_choices(name, place) if place.site or not host else {})
        if host not in ("", wanted.get("site.host")):
            print(f"{theirs}: [site] host is now {wanted['site.host']}; it was {host}")
    elif os.path.exists(last) and not _same(last, f"{HERE}/site.cfg"):
        copy(last, theirs, 0o644)                  # where earlier releases had it
        print(f"{last}: now {theirs}")
        edited = True
    else:
        wanted = _choices(name, place)
    text = with_values(shipped, wanted).encode()
    for path in (last,) if edited else (last, theirs):
        write(path, text, 0o644)
    return _loaded(site, theirs, name, place)


def check_host(host):
    """Failed if SITE= cannot be a [site] host."""
    from iostats.base.options import OPTIONS
    try:
        OPTIONS["site.host"].check(host)
    except ValueError as error:
        raise Failed(f"SITE: expected {OPTIONS['site.host'].expected}, got {host!r}") from error


def extras_on(place):
    """[extra] of pyproject.toml that the site.cfg of this place turns on; Failed."""
    from iostats import sinks
    from iostats.base import config as site
    from iostats.base.errors import IostatsError
    from iostats.store.database import is_url
    for path in (place.staged(ETC, "site.cfg"), place.staged(place.lib, "site.cfg")):
        if os.path.lexists(path):
            try:
                config = site.load(path, environ={})
                sinks.add_sections(config)
            except IostatsError as error:
                raise Failed(str(error)) from error
            return [name for name in sinks.list_names()
                    if sinks.find_sink(name).REQUIRES and sinks.find_sink(name).is_on(config)] + (
                        ["postgresql"] * is_url(config.site.store))
    return []


def is_edited(theirs, last):
    """Whether a site.cfg is another one than `make install-...` writes."""
    from iostats.base.errors import ConfigError
    with open(f"{HERE}/site.cfg", encoding="utf-8") as shipped, open(
            theirs, encoding="utf-8", errors="replace") as file:
        try:
            return not (_same(theirs, last)
                        or file.read() == with_values(shipped.read(), _chosen(theirs)))
        except ConfigError:
            return True


def _chosen(path):
    """{"section.key": value} of a site.cfg, as far as `make install-...` writes some."""
    from iostats.base import config as site
    config = site.load(path, environ={})
    values = {name: config.get_value(name)
              for name in ("web.address", "node.python", "server.auth", "site.host")
              if config.origin[name] != "the default"}
    return {name: " ".join(value) if isinstance(value, list) else str(value)
            for name, value in values.items()}


def _same(one, other):
    return os.path.exists(one) and os.path.exists(other) and filecmp.cmp(one, other, shallow=False)


def _choices(name, place):
    """What this machine's site.cfg says, for a start."""
    from iostats.wire import munge
    found = {}
    if place.site or (name == "site" and not place.destdir):
        found["site.host"] = place.site or os.uname().nodename
    if place.python_named:
        found["node.python"] = place.python
    # With munge users may read their own jobs' records, and nodes need no copy of a secret; a
    # host without munged (a storage server) authenticates by the secret.
    if not place.destdir and munge.is_usable():
        found["server.auth"] = "munge secret"
    return found


def with_values(text, values):
    """site.cfg's `text` with {"section.key": value} set."""
    for name, value in values.items():
        section, _, key = name.partition(".")
        head, begins, rest = text.partition(f"\n[{section}]\n")
        text = head + begins + re.sub(rf"(?m)^#?{key} =.*$", lambda _, key=key, value=value:
                                      f"{key} = {value}", rest, count=1)
    return text


def _loaded(site, path, name, place):
    from iostats import sinks
    from iostats.base.errors import IostatsError
    from iostats.wire import auth
    try:
        config = site.load(path, environ={})
        if name == "site":
            sinks.add_sections(config)
        if name == "site" and not place.destdir and "secret" in config.server.auth and (
                auth.make(config.site.secret)):
            print(f"{config.site.secret}: a new secret")
    except IostatsError as error:
        raise Failed(str(error)) from error
    return config
