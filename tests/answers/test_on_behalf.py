"""
`as_user`: what `iostats web` asks for a user is answered as it would be to that user.
docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import json

import pytest
from test_permissions import ALICE, BOB, OF_BOB, QUESTIONS, as_user, two_users  # noqa: F401

from iostats.answers import on_behalf
from iostats.server.rpc_server import Caller
from iostats.wire import jsonrpc, protocol

WEB = 2                                        # the user "bin", as whom the pages' server runs


@pytest.fixture
def pages(two_users):                          # noqa: F811
    """The site's server, with the pages' user among its readers."""
    two_users.server._readers.add(WEB)
    return two_users


def for_user(inside, user, method, asking=WEB, **params):
    """What the pages' server is answered when it asks for a user."""
    return json.loads(jsonrpc.dispatch(json.dumps(
        {"jsonrpc": "2.0", "method": "as_user", "id": 1,
         "params": {"user": user, "method": method, "params": params}}).encode(),
        inside.server.methods, Caller("web1", asking)))


def test_what_is_asked_for_a_user_is_answered_as_to_that_user(pages):
    """The very same answer, and nothing of bob's in it."""
    for method, params in QUESTIONS:
        answer = for_user(pages, "nobody", method, **params)
        assert as_user(pages, ALICE, method, **params) == answer
        if isinstance(answer["result"], dict):
            answer["result"].pop("text", None)                   # what he asked for himself
        assert [] == [word for word in OF_BOB if word in json.dumps(answer["result"])]


def test_a_reader_for_whom_it_is_asked_sees_all(pages):
    pages.server._readers.add(ALICE)
    [record] = for_user(pages, "nobody", "record", job="4713")["result"]
    assert "bob" == record["job"]["user"]
    assert {"user": "nobody", "all": True} == for_user(pages, "nobody", "rights")["result"]


def test_an_ordinary_user_asks_for_no_other(pages):
    """Not for himself either: he has a name of his own."""
    for user in ("nobody", "bin", "root"):
        error = for_user(pages, user, "latest", asking=ALICE)["error"]
        assert protocol.NOT_AUTHENTICATED == error["code"]
        assert error["message"].startswith("user 65534 may not call for other users")
        assert "there is no user" in for_user(pages, user, "latest", asking=BOB)["error"]["message"]


def test_a_page_never_asks_as_root_or_as_its_own_server(pages):
    """Names come from a log-in; who has the name of one of these there is another."""
    for user in ("root", "bin"):
        error = for_user(pages, user, "latest")["error"]
        assert protocol.REFUSED == error["code"]
        assert "other than root and those who" in error["message"]


def test_a_user_who_is_not_known_gets_no_answer(pages):
    for user in ("", "eve", "no\0body", "65534", "nobody " * 9, "<b>eve</b>"):
        error = for_user(pages, user, "latest")["error"]
        assert protocol.REFUSED == error["code"]
        assert error["message"].startswith("there is no user ")


def test_nothing_but_questions_can_be_asked_for_a_user(pages):
    for method in ("report", "packed_sweep", "packed_clients", "packed_events", "as_user",
                   "hello", "lnets", "no_such"):
        assert {"code": protocol.METHOD_NOT_FOUND, "message": "Method not found"} == for_user(
            pages, "nobody", method)["error"]


def test_params_of_the_wrong_form_are_refused_as_those_of_the_method(pages):
    assert as_user(pages, ALICE, "jobs", limit="many")["error"] == for_user(
        pages, "nobody", "jobs", limit="many")["error"]


def test_the_secret_alone_may_ask_and_no_one_without(pages):
    """Who has it may read everything; `rights` says so."""
    assert {"user": "", "all": True} == as_user(pages, None, "rights")["result"]
    assert {"user": "nobody", "all": False} == for_user(pages, "nobody", "rights",
                                                        asking=None)["result"]
    error = json.loads(pages.server.answer(json.dumps({
        "jsonrpc": "2.0", "method": "as_user", "id": 1,
        "params": {"user": "nobody", "method": "latest"}}).encode(), "")[0])["error"]
    assert protocol.NOT_AUTHENTICATED == error["code"]


def test_each_question_for_a_user_is_one_that_looks_at_who_asks(pages, monkeypatch):
    """A method that is added there without a look at its sender would answer everybody."""
    asked = {**dict(QUESTIONS), "record": {"job": "4713"}, "nodes": {"since": 0.0}}
    looked_at, real = [], pages.server._find_user
    monkeypatch.setattr(pages.server, "_find_user", lambda sender: (
        looked_at.append(sender), real(sender))[1])
    # The capacities of targets are for every user, as `lfs df` shows them, and so are metrics.
    known = [name for name in on_behalf.QUESTIONS
             if name in pages.server.methods and name not in ("rights", "capacity", "metrics")]
    assert len(known) >= 9
    for name in known:
        looked_at.clear()
        answer = as_user(pages, ALICE, name, **asked.get(name, {}))
        assert protocol.INVALID_PARAMS != answer.get("error", {}).get("code"), (name, answer)
        assert looked_at == [Caller("login1", ALICE)], name
