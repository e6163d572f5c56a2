"""
etcd, as a blocking client that any number of threads may use.

    etcd = from_config(site.load())
    etcd.put(etcd.key("agents"), b"{}")
    key_values, revision = etcd.range(etcd.below("instances"))
    won, _, _ = etcd.txn([absent(key)], [putting(key, b"me", lease)])
    for news in etcd.follow(etcd.key("agents"), stop): ...

A key that ends in "/" stands for all keys below it (answers.py).

Errors, each one line: EtcdAway (no member answers, or there is no quorum), EtcdRefused (password,
TLS, permission, too large), OutcomeUnknown (an EtcdAway: a transaction may have been done).

What the JSON gateway is: https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/
"""

from __future__ import annotations

import os
import stat
from urllib.parse import quote, unquote

from iostats.base.errors import ConfigError
from iostats.base.private_files import read_text
from iostats.etcd import answers
from iostats.etcd.answers import (
    Compare,
    EtcdAway,
    EtcdRefused,
    KeyValue,
    Operation,
    OutcomeUnknown,
    absent,
    created,
    deleting,
    getting,
    modified,
    putting,
    value_is,
)
from iostats.etcd.follow import Away, Back, Changes, Loaded, Stop, follow
from iostats.etcd.members import Members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Optional, Union

    from iostats.etcd.follow import News

__all__ = ["Away", "Back", "Changes", "Compare", "Etcd", "EtcdAway", "EtcdRefused", "KeyValue",
           "Loaded", "Operation", "OutcomeUnknown", "Stop", "absent", "created", "deleting",
           "from_config", "getting", "modified", "putting", "value_is"]

PAGE = 1000                          # keys of one answer
LONGEST_PREFIX = 100


class Etcd:
    """
    The members of one etcd.

    `endpoints`: URLs, http or https; the member that answered last is asked first.  A member that
    does not answer within `timeout_s` is passed by; where some do and none can decide, such as
    before a new leader is elected, they are asked again for twice as long.  `ca`, `cert`, `key`:
    files (PEM).  `say`: is told when another member is asked from now on.  `prefix`: what all of
    key() and below() begin with.
    """

    def __init__(self, endpoints: Sequence[str], *, user: str = "", password: str = "",
                 ca: str = "", cert: str = "", key: str = "", timeout_s: float = 2.0,
                 say: Callable[[str], object] = lambda text: None, prefix: str = "") -> None:
        self.members = Members(endpoints, user, password, ca, cert, key, timeout_s, say)
        self.prefix = prefix

    def key(self, *parts: str) -> str:
        """/PREFIX/a/b of "a", "b"; what a key cannot have in a part is written as %2F."""
        return "/" + "/".join([self.prefix, *(quote(part, safe="") for part in parts)])

    def below(self, *parts: str) -> str:
        """/PREFIX/a/: all keys below that of `parts`."""
        return self.key(*parts) + "/"

    @staticmethod
    def last_part(key: str) -> str:
        """The last of the parts that `key` was made of."""
        return unquote(key.rpartition("/")[2])

    def get(self, key: str) -> Optional[KeyValue]:
        """The KeyValue of `key`, or None where there is none."""
        found = answers.key_values(self.members.call("kv/range", answers.key_range(key)))
        return found[0] if found else None

    def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        """(all KeyValues below `prefix`, in their order; the revision that all of it is of)."""
        return self._range(prefix, {})

    def keys(self, prefix: str) -> list[str]:
        """The names of all keys below `prefix`, in their order."""
        return [found.key for found in self._range(prefix, {"keys_only": True})[0]]

    def _range(self, prefix: str, how: dict[str, Any]) -> tuple[list[KeyValue], int]:
        body: dict[str, Any] = {**answers.key_range(prefix), "limit": PAGE, **how}
        for _ in range(5):
            try:
                answer = self.members.call("kv/range", body)
                revision, found = answers.revision_of(answer), answers.key_values(answer)
                while answer.get("more") and found:
                    after = answers.key_range(found[-1].key + "\0")["key"]
                    answer = self.members.call("kv/range", {**body, "key": after,
                                                            "revision": str(revision)})
                    found += answers.key_values(answer)
                return found, revision
            except EtcdRefused as error:
                if error.code != answers.OUT_OF_RANGE:      # else it was compacted between pages
                    raise
        raise EtcdAway(f"etcd: {prefix} changes and is compacted faster than it can be read")

    def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """
        Put `key`; the revision.

        Where no answer comes it is put at the next member again, so it may be put twice: for keys
        that have one writer, or whose value is the same from each.
        """
        return answers.revision_of(
            self.members.call("kv/put", answers.put_request(key, value, lease)))

    def delete(self, key: str) -> int:
        """Delete `key`, or all below it; how many there were, as far as the last try saw."""
        return answers.number(self.members.call("kv/deleterange", answers.key_range(key)),
                              "deleted")

    def txn(self, compares: Sequence[Compare], then: Sequence[Operation],
            otherwise: Sequence[Operation] = (), again: bool = False,
            ) -> tuple[bool, list[Union[list[KeyValue], int, None]], int]:
        """
        Do `then` where all of `compares` hold, else `otherwise`, at one revision: it is never
        half seen.

        (whether they held, what each operation gave: KeyValues of getting, a count of deleting,
        None of putting, the revision).  OutcomeUnknown where it was sent and no answer came;
        with `again` it is asked of the next member then, and its compares may see its own doing.
        """
        answer = self.members.call("kv/txn", answers.txn_request(compares, then, otherwise), again)
        return (answer.get("succeeded") is True,
                [answers.response(one) for one in answers.members(answer, "responses")],
                answers.revision_of(answer))

    def grant(self, ttl_s: int) -> int:
        """A new lease, which is over `ttl_s` seconds after it was last kept alive."""
        return answers.number(self.members.call("lease/grant", {"TTL": str(ttl_s)}), "ID")

    def keep_alive(self, lease: int) -> int:
        """Begin the time of `lease` anew; the seconds that it has from now, 0: it is gone."""
        answer = self.members.call("lease/keepalive", {"ID": str(lease)})
        return max(0, answers.number(answers.member(answer, "result"), "TTL"))

    def revoke(self, lease: int) -> None:
        """End `lease`, with all its keys; one that is gone is no error."""
        try:
            self.members.call("lease/revoke", {"ID": str(lease)})
        except EtcdRefused as error:
            if error.code != answers.NOT_FOUND:
                raise

    def follow(self, name: str, stop: Stop,
               ask_every_s: float | None = None) -> Iterator[News]:
        """
        What is at key `name`, or below where it ends in "/", and all that changes, until `stop`.

        First Loaded; then Changes in their order, none twice and none left out; Loaded again where
        changes were compacted before they were seen.  Away(why) when no member serves it, Back()
        when one does again; it raises nothing.  Blocks; for a thread of its own.

        A member that was silent for `ask_every_s` (half of timeout_s) is asked whether it is there,
        which takes it 0.5 ms: where many follow, less often is enough.
        """
        return follow(self.members, name, stop, self.range,
                      self.members.timeout_s / 2 if ask_every_s is None else ask_every_s)

    def close(self) -> None:
        """Close the connections that nothing uses just now."""
        self.members.close()

    def __enter__(self) -> Etcd:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def from_config(config: Mapping[str, Any], endpoints: str | None = None, prefix: str | None = None,
                say: Callable[[str], object] = lambda text: None, timeout_s: float = 2.0) -> Etcd:
    """
    The Etcd of [etcd] in site.cfg; `endpoints` (URLs, comma or spaces between) and `prefix` stand
    for those.  ConfigError.
    """
    urls = (endpoints.replace(",", " ").split() if endpoints is not None
            else list(config["etcd.endpoints"]))
    if not urls:
        raise ConfigError("no etcd is named; expected URLs such as http://mgmt1:2379 in [etcd] "
                          "endpoints of site.cfg, or with --etcd")
    name = prefix if prefix is not None else config["etcd.prefix"]
    user, path = config["etcd.user"], config["etcd.password_file"]
    if bool(user) != bool(path):
        raise ConfigError("[etcd] user and [etcd] password_file go together, got "
                          f"{'user' if user else 'password_file'} alone")
    return Etcd(urls, user=user, password=_password(path) if path else "", ca=config["etcd.ca"],
                cert=config["etcd.cert"], key=config["etcd.key"], timeout_s=timeout_s, say=say,
                prefix=checked_prefix(name))


def checked_prefix(name: str) -> str:
    """`name` where it can be the first part of keys; ConfigError."""
    name = name.strip("/")
    if not name or "/" in name or not name.isprintable() or len(name) > LONGEST_PREFIX:
        raise ConfigError(f"[etcd] prefix: expected the name of a cluster of up to "
                          f"{LONGEST_PREFIX} characters without '/', such as orion, got "
                          f"{name[:120]!r}; set it in site.cfg, or with --prefix")
    return name


def _password(path: str) -> str:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise ConfigError(f"{path}: expected a file of mode 0600, got mode "
                              f"{stat.S_IMODE(found.st_mode):04o}; others could have read the "
                              f"password")
        password = read_text(path).encode("latin-1").decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a password in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if not password:
        raise ConfigError(f"{path}: expected a password, got an empty file")
    return password
