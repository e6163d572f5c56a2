"""
What is in the way of a node and its job's server, for the doctor: ports, secret or munge, and the
clock.  Changes nothing.
"""

from __future__ import annotations

from iostats.base import job_id
from iostats.base.errors import ConfigError, IostatsError, NotDelivered
from iostats.doctor import site as doctor_site
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quoted
from iostats.wire import auth, client, secret
from iostats.wire.site_servers import REACH_WITHIN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config


def examine(given: dict[str, Any], config: Config, job: str | None, node: str) -> list[Check]:
    """[Check] of port, job, secret and clock of the job's server, where one is named."""
    host = config["server.host"]
    if not host:
        return [Check(NOTE, "server", "none named (--server, or [server] host in site.cfg)")]
    try:
        host, port = client.split_server(host)
    except IostatsError as error:
        return [Check(PROBLEM, "server", str(error), "iostats_client.py doctor --server HOST")]
    if job is None:
        return [Check(NOTE, "server", f"{host}: not asked, its ports follow from the job's id")]
    ports = [port] if port else job_id.ports(job, config["server.port_first"],
                                             config["server.port_last"],
                                             config["server.port_tries"])
    known, signs = _known_by(given, config, job, host)
    others, begin = [], f"iostats_server.py --job {job} &"
    for port in ports:
        try:
            hello, by = client.server_at(host, port, job,
                                         signs or [auth.Secret(job, b"none")], node,
                                         REACH_WITHIN_S)
        except client.SilentPort as error:
            others.append(f"port {port}: {error}")
            continue
        except (OSError, NotDelivered) as error:
            if not isinstance(error, ConnectionRefusedError):
                others.append(f"port {port}: {getattr(error, 'strerror', None) or error}")
                break
            continue
        if hello.get("job") == job:
            return [Check(OK, "server", f"{host}:{port} is the server of job {job}"),
                    *known, *_trust_and_clock(hello, by, signs, host, given, config, job)]
        others.append(f"port {port}: " + (f"the server of job {str(hello['job'])[:40]!r}"
                                          if "job" in hello else "in use by another program"))
    text = "; ".join(others) or f"no server found on {_ports_text(ports)}"
    # Without a server there need not be a secret yet; one that is not safe is told.
    return [Check(PROBLEM, "server", f"{host}: {text}; start it there", begin),
            *(check for check in known if not check.fix.startswith("scp "))]


def _ports_text(ports: list[int]) -> str:
    """
    >>> _ports_text([24567]), _ports_text([24567, 24824]), _ports_text([24567, 24824, 25081, 25338])
    ('port 24567', 'ports 24567 and 24824', 'ports 24567, 24824 and 2 more')
    """
    *first, last = map(str, ports)
    if len(first) > 1:
        first, last = first[:2], f"{len(ports) - 2} more"
    return f"ports {', '.join(first)} and {last}" if first else f"port {last}"


def _known_by(given: dict[str, Any], config: Config, job: str,
              host: str) -> tuple[list[Check], list[auth.Credentials]]:
    """([Check] of what could not be had, [what signs]) of site.cfg's [server] auth."""
    checks, signs = [], []
    for word in config["server.auth"]:
        if word == "munge":
            try:
                signs += auth.client_credentials({**config, "server.auth": ["munge"]}, job, None)
            except ConfigError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "iostats config --check"))
            except IostatsError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "systemctl start munge"))
        else:
            password, check = _secret(given, config, job, host)
            if password is not None:
                signs.append(auth.Secret(job, password))
            elif check is not None:
                checks.append(check)
    if signs:                              # one way that works is enough
        checks = [one._replace(state=NOTE) if one.fix.startswith(("scp ", "systemctl")) else one
                  for one in checks]
    return checks, signs


def _secret(given: dict[str, Any], config: Config, job: str,
            host: str) -> tuple[bytes | None, Check | None]:
    """(the secret or None, a Check when there is something wrong with it)."""
    path = None
    try:
        path = secret.where(given.get("--secret"), config["secret.dir"], job)
        return secret.load(path), None
    except NotDelivered as error:
        return None, Check(PROBLEM, "secret", str(error), doctor_site.fetch(host, path or ""))
    except IostatsError as error:
        return None, Check(PROBLEM, "secret", str(error),
                           f"rm {quoted(path)}" if path else f"unset {secret.VARIABLE}")


def _trust_and_clock(hello: dict[str, Any], by: auth.Credentials | None,
                     signs: list[auth.Credentials], host: str, given: dict[str, Any],
                     config: Config, job: str) -> list[Check]:
    """[Check] of a server of this job: by what we know it, and its clock."""
    if not signs:
        return []
    path = (secret.where(given.get("--secret"), config["secret.dir"], job)
            if "secret" in config["server.auth"] else None)
    where = path or secret.VARIABLE
    if by is None:
        return [Check(PROBLEM, "munge", one.reject_reason, "iostats config --check")
                if isinstance(one, auth.Munge) else
                Check(PROBLEM, "secret", f"{where}: the server has another one",
                      doctor_site.fetch(host, path) if path else f"unset {secret.VARIABLE}")
                for one in signs]
    return [Check(OK, "munge", "munged works here, and proves whose the server is")
            if isinstance(by, auth.Munge) else
            Check(OK, "secret", f"{where}: the server has the same"),
            *doctor_site.clock("clock", hello)]
