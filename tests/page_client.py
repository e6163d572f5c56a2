"""
The pages without a network: Starlette's TestClient, as the site's proxy, which names the user.
"""
from __future__ import annotations

from starlette.requests import Request

HEADER = "X-Remote-User"


def client_of(pages, user=None):
    """A TestClient; `user`: whom the proxy names in each request."""
    from starlette.testclient import TestClient  # httpx2, which no benchmark needs

    from iostats.base.config import Config
    from iostats.web.asgi import make_application
    from iostats.web.viewer import UserDetector
    config = Config()
    config.set_value("web.user_header", HEADER, "test")
    config.set_value("web.trusted", "127.0.0.1", "test")
    return TestClient(make_application(pages, UserDetector(config)), "http://pages.example",
                      raise_server_exceptions=False, client=("127.0.0.1", 23),
                      follow_redirects=False, headers={} if user is None else {HEADER: user})


def request_of(viewer, query=""):
    """A Request of a known user."""
    return Request({"type": "http", "method": "GET", "path": "/", "headers": [],
                    "query_string": query.encode(), "user": viewer, "path_params": {}})
