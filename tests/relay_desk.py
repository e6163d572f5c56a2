"""
Several sites at one desk: one whose server hears storage servers and relays, and clusters.

    alkindi, xe = site(tmp_path, "alkindi"), site(tmp_path, "xe")
    relay(alkindi, xe, "o2ib2", "gdata; o2ib2")
    alkindi.site(), xe.site()
    alkindi.clients("oss1", "gdata", {"10.9.0.1@o2ib2": (23, 37, 1, 2, 3, 41)})
"""
import shutil
import time

from processes import until
from site_desk import SiteDesk

from iostats.load.amounts import CLIENT_METRICS
from iostats.wire import auth, client, protocol
from iostats.wire.relays import RelaySecret


class RelaySite(SiteDesk):
    """A SiteDesk with a name; see `relay`."""

    def __init__(self, directory, name):
        directory.mkdir()
        super().__init__(directory)
        self.name, self.secrets = name, self.directory / "relay"
        self.spool, self._questions = self.directory / "relayed", 0
        self.secrets.mkdir()
        self.choices.update({"site.relay_name": name, "site.relay_secrets": self.secrets,
                             "site.relay_spool_dir": self.spool})
        self.configure()

    def relays_to(self, other, lnets, more=""):
        """[relay]: these LNets are of that RelaySite."""
        self.choices[f"relay.{lnets}"] = f"127.0.0.1:{other.port} {other.name}{more}"
        self.configure()

    def hears(self, other, what):
        """[relay_from]: what that RelaySite may say."""
        self.choices[f"relay_from.{other.name}"] = what
        self.configure()

    def share_secret(self, other):
        """Make the secret of a relay to `other`, and copy it there."""
        auth.make(str(self.secrets / f"{other.name}.secret"))
        shutil.copy(self.secrets / f"{other.name}.secret", other.secrets / f"{self.name}.secret")

    def did(self, since=0.0, **which):
        """
        {NID: ([of CLIENT_METRICS], {metric: at most}, [note])} of `nodes` since then; {} before the
        first sweep.
        """
        self._questions += 1
        try:
            # Another question each time: the answer to the last one is remembered for a sweep.
            # And up to a minute from now: the last reading went on after its sweep's moment.
            answer = self.asked("nodes", since=since + self._questions / 1e6,
                                until=time.time() + 60, **which)
        except client.Refused:
            return {}
        return {row["node"]: ([row[name] for name in CLIENT_METRICS], row["at_most"], row["notes"])
                for row in answer["nodes"]}

    def lows(self, since=0.0, **which):
        """{NID: [of CLIENT_METRICS]}: what it did at least."""
        return {node: low for node, (low, *_) in self.did(since, **which).items()}

    def until_lows(self, expected, since=0.0):
        """Wait until that is so, no more and no less."""
        until(lambda: self.lows(since) == expected,
              what=lambda: f"{self.name}: {expected}, not {self.lows(since)},")

    def waiting(self, other):
        """How many messages wait for that RelaySite."""
        return len(list((self.spool / other.name).glob("*.message")))

    def call_as_relay(self, other, method, params, name=None, password=None):
        """What the server of `other` answers to a method that this relay calls."""
        name = name or self.name
        password = password or auth.load(str(self.secrets / f"{other.name}.secret"))
        return client.call("127.0.0.1", other.port, protocol.SITE, [RelaySecret(name, password)],
                           name, method, params)


def relay(one, other, lnets, what):
    """`one` relays the clients of `lnets` to `other`, which lets it say `what`."""
    one.relays_to(other, lnets)
    other.hears(one, what)
    one.share_secret(other)


def added(*amounts):
    """The sum of amounts of CLIENT_METRICS."""
    return [sum(column) for column in zip(*amounts)]


def second():
    """A moment between two sweeps of every second."""
    time.sleep(1 - time.time() % 1)
    return time.time()
