"""
/etc/iostats/site.cfg and the secret, as `make install-...` writes them; an edited one is kept.
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
    with open(f"{HERE}/site.cfg", encoding="utf-8") as file:
        shipped = file.read()
    theirs, last = place.staged(ETC, "site.cfg"), place.staged(place.lib, "site.cfg")
    os.makedirs(os.path.dirname(theirs), exist_ok=True)
    os.chmod(os.path.dirname(theirs), 0o755)
    wanted, edited = {}, os.path.lexists(theirs) and is_edited(theirs, last)
    if edited:
        print(f"{theirs}: kept, it was edited; this release's is {place.lib}/site.cfg")
    elif os.path.lexists(theirs):
        wanted = _chosen(theirs)
        wanted.update(_choices(name, place) if place.site or "site.host" not in wanted else {})
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


def sinks_on(place):
    """The sinks with packages that the site.cfg of this place turns on; Failed."""
    from iostats import sinks
    from iostats.base import config as site
    from iostats.base.errors import IostatsError
    for path in (place.staged(ETC, "site.cfg"), place.staged(place.lib, "site.cfg")):
        if os.path.lexists(path):
            try:
                config = site.load(path, environ={})
                sinks.add_sections(config)
            except IostatsError as error:
                raise Failed(str(error))
            return [name for name in sinks.names()
                    if sinks.named(name).REQUIRES and sinks.named(name).is_on(config)]
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
    found = site.load(path, environ={})
    return {name: " ".join(found[name]) if isinstance(found[name], list) else str(found[name])
            for name in ("web.address", "node.python", "server.auth", "site.host")
            if found.origin[name] != "the default"}


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
    if not place.destdir and not munge.available():
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
    from iostats.wire import secret
    try:
        config = site.load(path, environ={})
        if name == "site":
            sinks.add_sections(config)
        if name == "site" and not place.destdir and "secret" in config["server.auth"] and (
                secret.make(config["site.secret"])):
            print(f"{config['site.secret']}: a new secret")
    except IostatsError as error:
        raise Failed(str(error))
    return config
