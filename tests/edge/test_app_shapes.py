"""What known apps send gets them in, and docs/connect.md shows how."""

import pytest
from tests.edge.app_shapes import names_written, section, written
from tests.edge.apps import APPS, App
from tests.edge.doubles.internet import Internet
from tests.edge.edge import OWNER_KEY, Edge
from tests.edge.oauth import Flow
from tests.edge.owner import parameters, sent_to


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_what_an_app_sends_gets_it_in_as_the_page_shows(edge: Edge, internet: Internet, app: App):
    assert section(edge, internet, app) == written(app), "run: python -m tests.edge.app_shapes"


def test_the_page_shows_no_app_that_is_not_replayed():
    assert names_written() == [app.name for app in APPS]


@pytest.mark.parametrize("scheme", ["vscode", "vscode-insiders", "cursor"])
def test_an_editor_that_is_opened_by_its_scheme_gets_in(edge: Edge, scheme: str):
    redirect_uri = f"{scheme}://some.extension/callback?windowId=1"
    with Flow(edge.rig.url, OWNER_KEY, redirect_uri=redirect_uri) as flow:
        assert flow.register().status_code == 201
        back = sent_to(flow.decide(flow.consent_page()))
        assert back.startswith(f"{redirect_uri}&code=")
        assert flow.exchange(parameters(back)["code"]).status_code == 200


@pytest.mark.parametrize("typed", ["/mcp", "/mcp/", "", "/"])
def test_an_app_may_name_the_resource_as_its_user_has_typed_the_address(edge: Edge, typed: str):
    with Flow(edge.rig.url, OWNER_KEY) as flow:
        flow.register()
        resource = flow.url + typed
        answer = flow.token(
            grant_type="authorization_code",
            code=flow.allowed(resource=resource),
            redirect_uri=flow.redirect_uri,
            code_verifier=flow.pkce.verifier,
            resource=resource,
        )
        assert answer.status_code == 200, answer.text
