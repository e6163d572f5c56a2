"""
Check a node and its job's server for the doctor: ports, secret or munge, and the clock.  Changes
nothing.
"""

from __future__ import annotations

import os

from iostats.base import job_ports
from iostats.base.errors import ConfigError, IostatsError, NotDelivered
from iostats.doctor import site as doctor_site
from iostats.doctor.check import NOTE, OK, PROBLEM, Check, quote_path
from iostats.wire import auth, client
from iostats.wire.site_servers import REACH_WITHIN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.base.config import Config
    from iostats.wire.protocol import Hello


def examine(options: Mapping[str, str], config: Config, job: str | None, node: str) -> list[Check]:
    """Return [Check] of port, job, secret and clock of the job's server, where one is named."""
    host = config.server.host
    if not host:
        return [Check(NOTE, "server", "none named (--server, or [server] host in site.cfg)")]
    try:
        host, port = client.split_server(host)
    except IostatsError as error:
        return [Check(PROBLEM, "server", str(error), "iostats_client.py doctor --server HOST")]
    if job is None:
        return [Check(NOTE, "server", f"{host}: not asked, its ports follow from the job's id")]
    ports = [port] if port else job_ports.list_ports(
        job, config.server.port_first, config.server.port_last, config.server.port_tries)
    checks_of_secrets, signs = _load_credentials(options, config, job, host)
    other_servers, begin = [], f"iostats_server.py --job {job} &"
    for port in ports:
        try:
            hello, by = client.identify_server(host, port, job,
                                               signs or [auth.Secret(job, b"none")], node,
                                               REACH_WITHIN_S)
        except client.SilentPort as error:
            other_servers.append(f"port {port}: {error}")
            continue
        except (OSError, NotDelivered) as error:
            if not isinstance(error, ConnectionRefusedError):
                other_servers.append(f"port {port}: {getattr(error, 'strerror', None) or error}")
                break
            continue
        if hello.get("job") == job:
            return [Check(OK, "server", f"{host}:{port} is the server of job {job}"),
                    *checks_of_secrets,
                    *_trust_and_clock(hello, by, signs, host, options, config, job)]
        other_servers.append(f"port {port}: " + (f"the server of job {str(hello['job'])[:40]!r}"
                                                 if "job" in hello
                                                 else "in use by another program"))
    text = "; ".join(other_servers) or f"no server found on {_format_ports(ports)}"
    # Without a server there need not be a secret yet; an unsafe one is reported.
    return [Check(PROBLEM, "server", f"{host}: {text}; start it there", begin),
            *(check for check in checks_of_secrets if not check.fix.startswith("scp "))]


def _format_ports(ports: list[int]) -> str:
    """
    Name the ports, the first and the last of many.

    >>> (_format_ports([24567]), _format_ports([24567, 24824]),
    ...  _format_ports([24567, 24824, 25081, 25338]))
    ('port 24567', 'ports 24567 and 24824', 'ports 24567, 24824 and 2 more')
    """
    *first, last = map(str, ports)
    if len(first) > 1:
        first, last = first[:2], f"{len(ports) - 2} more"
    return f"ports {', '.join(first)} and {last}" if first else f"port {last}"


def _load_credentials(options: Mapping[str, str], config: Config, job: str,
                      host: str) -> tuple[list[Check], list[auth.Credentials]]:
    """Return ([Check] of missing credentials, [credentials]) of [server] auth in site.cfg."""
    checks, signs = [], []
    for word in config.server.auth:
        if word == "munge":
            try:
                signs += auth.load_client_credentials(config, job, None, methods=["munge"])
            except ConfigError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "iostats config --check"))
            except IostatsError as error:
                checks.append(Check(PROBLEM, "munge", str(error), "systemctl start munge"))
        else:
            password, check = _find_secret(options, config, job, host)
            if password is not None:
                signs.append(auth.Secret(job, password))
            elif check is not None:
                checks.append(check)
    if signs:                              # one way that works is enough
        checks = [check._replace(state=NOTE) if check.fix.startswith(("scp ", "systemctl"))
                  else check
                  for check in checks]
    return checks, signs


def _find_secret(options: Mapping[str, str], config: Config, job: str,
            host: str) -> tuple[bytes | None, Check | None]:
    """Return (the secret or None, a Check if it has a problem)."""
    path = None
    try:
        path = auth.find_secret_path(options.get("--secret"), config.secret.dir, job)
        return auth.load(path, auth.OF_JOB), None
    except NotDelivered as error:
        return None, Check(PROBLEM, "secret", str(error), doctor_site.fetch(host, path or ""))
    except IostatsError as error:
        return None, Check(PROBLEM, "secret", str(error),
                           f"unset {auth.VARIABLE}" if path is None else
                           f"rm {quote_path(path)}" if os.access(path, os.R_OK) else "")


def _trust_and_clock(hello: Hello, by: auth.Credentials | None,
                     signs: list[auth.Credentials], host: str, options: Mapping[str, str],
                     config: Config, job: str) -> list[Check]:
    """Return [Check] of a server of this job: its authentication and its clock."""
    if not signs:
        return []
    path = (auth.find_secret_path(options.get("--secret"), config.secret.dir, job)
            if "secret" in config.server.auth else None)
    where = path or auth.VARIABLE
    if by is None:
        return [Check(PROBLEM, "munge", credentials.reject_reason, "iostats config --check")
                if isinstance(credentials, auth.Munge) else
                Check(PROBLEM, "secret", f"{where}: the server has another one",
                      doctor_site.fetch(host, path) if path else f"unset {auth.VARIABLE}")
                for credentials in signs]
    return [Check(OK, "munge", "munged works here, and proves whose the server is")
            if isinstance(by, auth.Munge) else
            Check(OK, "secret", f"{where}: the server has the same"),
            *doctor_site.check_clock("clock", hello)]
