"""
Metrics of targets and services, each EVERY_S: the numbers, and what they show to be wrong.

    clients have been granted all that is available on an OST       no_grants
    requests waited a second or more for a thread, on average       requests_wait
    copytools failed                                                hsm_failed

Each is one event until the cause has ended, with the last reading that had it.  `gained` is what
counters have gained between two readings; after a restart of the agent there is none at first.

    state: of events/conditions.py; the keys are such as "no_grants scratch-OST0003"
"""

from __future__ import annotations

from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import HSM_FAILED, NO_GRANTS, REQUESTS_WAIT
from iostats.events.metrics_reading import read_metrics
from iostats.events.server_reading import get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.server_metrics import subtract
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.metrics_reading import MetricsReading
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.events.status import Amounts, MetricsStatus

NAME, ROLES = "metrics", ("server",)
EVERY_S = 60.0
WAIT_US, LEAST_REQUESTS = 1_000_000, 100        # of requests_wait, between two readings
_GRANTED_SHARE = 0.95                           # of what is available, until no_grants ends


def scan(place: Place, before: ConditionsState | None, now: float) -> SourceResult:
    """
    Found: no_grants, requests_wait, hsm_failed; status: {"metrics": {"seconds": between two
    readings, "targets": {target: {"values", "gained"}}, "services": {service: the same}}}.
    """
    cached: tuple[float, MetricsStatus | None] = place.cache.get(NAME, (0.0, None))
    at, status = cached
    if status is not None and 0 <= now - at < EVERY_S:
        return SourceResult([], before, {"metrics": status})
    server = get_server_reading(place, now)
    result = detect(server, read_metrics(place.root, server.targets or ()), place, before, now,
                    status, now - at)
    place.cache[NAME] = now, result.status["metrics"]
    return result


def detect(server: ServerReading, reading: MetricsReading, place: Place,
           before: ConditionsState | None, now: float,
           last: MetricsStatus | None, seconds: float) -> SourceResult:
    """Find faults in a MetricsReading; `last`: the status `seconds` ago, or None."""
    before_targets, before_services = (last["targets"], last["services"]) if last else ({}, {})
    status: MetricsStatus = {
        "seconds": round(seconds, 3) if before_targets or before_services else 0.0,
        "targets": _compare(before_targets, reading.targets),
        "services": _compare(before_services, reading.services)}
    for name, policy in reading.policies.items():
        status["services"][name]["policy"] = policy
    if server.targets is None:
        return SourceResult([], before, {"metrics": status})
    conditions = Conditions(before, now)
    events: list[Event] = []

    def report(key: str, opened: tuple[float, int], text: str, over: float | None = None) -> None:
        (kind, name), (since, number) = key.split(" "), opened
        target = "" if kind == REQUESTS_WAIT else name
        events.append(make_event(
            place.boot_id, place.node, (NAME, kind, name, f"{place.series}{number}"), kind, since,
            last=now, over=over, file_system=parse_file_system(target), target=target,
            message=f"{name}: {text}"))
    for key, is_wrong, text in _judge(server, status, conditions):
        if is_wrong:
            report(key, conditions.opened(key), text)
        elif key in conditions:
            report(key, conditions.end(key), f"now {text}", now)
    for key in conditions:
        if key.partition(" ")[2] not in {**reading.targets, **reading.services}:
            report(key, conditions.end(key), "no longer on this storage server", now)
    return SourceResult(events, conditions.state(), {"metrics": status})


def _compare(before: Mapping[str, Amounts],
             now: Mapping[str, dict[str, int]]) -> dict[str, Amounts]:
    return {name: {"values": values, "gained": subtract(
        before[name]["values"] if name in before else None, values)}
        for name, values in now.items()}


def _judge(server: ServerReading, status: MetricsStatus,
           conditions: Conditions) -> Iterator[tuple[str, bool, str]]:
    """Yield (key, whether it is a fault, text) of each known metric."""
    for name, target in status["targets"].items():
        capacity = server.targets[name].capacity if server.targets else None
        granted = target["values"].get("granted_bytes")
        if granted is not None and capacity is not None and "-OST" in name:
            key = f"{NO_GRANTS} {name}"
            least = capacity.bytes_available * (_GRANTED_SHARE if key in conditions else 1)
            yield key, 0 < granted >= least, (
                f"{granted >> 20:,} MiB are granted to clients, and "
                f"{capacity.bytes_available >> 20:,} MiB are available")
        if "hsm_failed" in target["gained"]:
            failed, done = (target["gained"][part] for part in ("hsm_failed", "hsm_done"))
            yield f"{HSM_FAILED} {name}", failed > 0, (
                f"copytools failed at {failed:,} of {failed + done:,} requests in the last "
                f"{status['seconds']:.0f} s" if failed else "no failed requests")
    for name, service in status["services"].items():
        gains, key = service["gained"], f"{REQUESTS_WAIT} {name}"
        if "requests" in gains:
            requests = gains["requests"]
            mean_us = gains["wait_us"] / max(1, requests)
            threads = " of ".join(str(service["values"][part])
                                  for part in ("threads", "threads_max")
                                  if part in service["values"])
            yield key, requests >= LEAST_REQUESTS and (
                mean_us >= WAIT_US / (2 if key in conditions else 1)), (
                f"{requests:,} requests waited {mean_us / 1e6:.1f} s for a thread on average, in "
                f"the last {status['seconds']:.0f} s; {threads} threads are started")
