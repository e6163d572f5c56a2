"""Asking the site's server, for all roles that do."""

from __future__ import annotations

import contextlib
import os
import pwd

from iostats.base.errors import NotDelivered
from iostats.node import identity
from iostats.wire import auth, client, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.base.config import Config

_LONGEST = 1 << 28
WITHIN_S = 30.0


def asked(config: Config, method: str, params: dict[str, Any],
          within_s: float = WITHIN_S) -> Any:
    """The result of a method of the site's server; NotDelivered where it can't be asked."""
    host, port = client.site_server(config)
    signs = auth.client_credentials(config, protocol.SITE, config["site.secret"])
    return client.call(host, port, protocol.SITE, signs, identity.name(), method, params, within_s,
                       _LONGEST)


@contextlib.contextmanager
def of_its_form(what: str) -> Iterator[None]:
    """NotDelivered where `what`, which a server has answered, is not as this release knows it."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise NotDelivered(f"the site's server answers in another form: {what} cannot be shown "
                           f"({error!r:.200}); use one release of iostats here and there") from None


def may_read(user: str, config: Config) -> bool:
    """
    Whether who asks here may read reports of `user`: as the site's server would decide, for what
    does not come from it.  True where it is not known whose they are.
    """
    uid = os.geteuid()
    names = {str(uid)}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(uid).pw_name)
    return uid == 0 or not user or user in names or not names.isdisjoint(config["site.readers"])
