from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.api.oauth import redirects
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.records import Client, ClientKind

ISSUER = "https://memory.example"
APPS = ("cursor", "vscode")
CLIENT = Client("id", ClientKind.REGISTERED, "App", ("https://app.example/cb", "http://127.0.0.1:1234/cb"))

ALLOWED = [
    "https://claude.ai/api/mcp/auth_callback",
    "https://chatgpt.com/connector/oauth/abc_123",
    "https://app.example:8443/cb?x=1&y=%20",
    "https://app.example",
    "https://xn--bcher-kva.example/cb",
    "https://192.0.2.7/cb",
    "https://[2001:db8::1]:8443/cb",
    "http://127.0.0.1/cb",
    "http://127.0.0.1:33418/",
    "http://localhost:8787/callback",
    "http://[::1]:1/cb",
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "vscode://vscode.github-authentication/did-authenticate?a=1",
]
REFUSED = [
    "",
    "/cb",
    "//app.example/cb",
    "app.example/cb",
    "http://app.example/cb",
    "http://127.0.0.1.evil.example/cb",
    "http://localhost.evil.example/cb",
    "http://127.0.0.2/cb",
    "http://127.1/cb",
    "http://2130706433/cb",
    "http://0x7f000001/cb",
    "http://0x7f.1/cb",
    "http://0177.0.0.1/cb",
    "http://0/cb",
    "http://localhost@evil.example/cb",
    "http://LOCALHOST/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http://[0:0:0:0:0:0:0:1]/cb",
    "http://127.0.0.1@evil.example/cb",
    "https://user@app.example/cb",
    "https://user:secret@app.example/cb",
    "https://app.example/cb#",
    "https://app.example/cb#x",
    "https://app.example\\@evil.example/cb",
    "https:\\\\app.example/cb",
    "https:/app.example/cb",
    "https:app.example/cb",
    "https:///cb",
    "https://*.app.example/cb",
    "https://app%2eexample/cb",
    "https://APP.example/cb",
    "HTTPS://app.example/cb",
    "https://app.example./cb",
    "https://app..example/cb",
    "https://-app.example/cb",
    "https://app.example:/cb",
    "https://app.example:0/cb",
    "https://app.example:080/cb",
    "https://app.example:65536/cb",
    "https://app.example:80:80/cb",
    "https://[::1/cb",
    "https://" + "a." * 124 + "example/cb",
    "https://[fe80::1%25eth0]/cb",
    "https://1.2.3/cb",
    "https://0300.0.2.1/cb",
    "https://bücher.example/cb",
    "https://app.example/ cb",
    " https://app.example/cb",
    "https://app.example/cb\n",
    "java\tscript:alert(1)",
    "https://app.example/\x00",
    "https://app.example/%",
    "https://app.example/%4",
    'https://app.example/"onclick=',
    "https://app.example/<script>",
    "https://memory.example/authorize",
    "https://memory.example:443/authorize",
    "https://memory.example:8443/authorize",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:https://app.example/1",
    "about:blank",
    "vbscript:x",
    "ws://127.0.0.1/",
    "cursor:",
    "Cursor://x",
    "cursor-evil://x",
    "zed://x",
    "urn:ietf:wg:oauth:2.0:oob",
    "https://app.example/" + "x" * redirects.URI_MAX_CHARS,
]


@pytest.mark.parametrize("uri", ALLOWED)
def test_codes_may_go_to_web_apps_to_this_machine_and_to_named_desktop_apps(uri: str):
    redirects.check(uri, APPS, ISSUER)
    assert redirects.matches(uri, uri)


@pytest.mark.parametrize("uri", REFUSED, ids=lambda uri: repr(uri[:40]))
def test_codes_may_go_nowhere_else(uri: str):
    with pytest.raises(OAuthError) as refused:
        redirects.check(uri, APPS, ISSUER)
    assert refused.value.code is Code.INVALID_REDIRECT_URI


def test_on_loopback_another_port_is_another_program():
    redirects.check("http://127.0.0.1:9/cb", APPS, "http://127.0.0.1:8787")
    with pytest.raises(OAuthError):
        redirects.check("http://127.0.0.1:8787/cb", APPS, "http://127.0.0.1:8787")


@given(st.text() | st.from_regex(r"(https?|cursor|javascript):/{0,3}[\[\]:@a-z0-9.%#?*/-]{0,30}", fullmatch=True))
@example("https://[")
@example("https://]")
@example("https://[::1]x/")
@example("https://\ud800/")
def test_any_text_is_taken_or_refused(text: str):
    try:
        redirects.check(text, APPS, ISSUER)
    except OAuthError as error:
        assert error.code is Code.INVALID_REDIRECT_URI
        assert error.description.isascii() and '"' not in error.description
        return
    assert text.isascii() and text.isprintable() and " " not in text
    assert redirects.host_shown(text) and redirects.form_action(text)
    assert redirects.is_loopback(text) in (True, False)


@pytest.mark.parametrize(
    ("registered", "given"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb"),
        ("http://127.0.0.1:1234/cb", "http://127.0.0.1:5000/cb"),
        ("http://127.0.0.1:1234/cb", "http://127.0.0.1/cb"),
        ("http://localhost:1/cb?a=1", "http://localhost:2/cb?a=1"),
        ("http://[::1]/cb", "http://[::1]:5000/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:65535/cb"),
        # As VS Code registers.
        ("http://127.0.0.1/", "http://127.0.0.1:33418/"),
    ],
)
def test_programs_on_this_machine_take_the_port_that_is_free(registered: str, given: str):
    assert redirects.matches(registered, given)


@pytest.mark.parametrize(
    ("registered", "given"),
    [
        ("https://app.example/cb", "https://app.example/cb/"),
        ("https://app.example/cb", "https://app.example/cb?x=1"),
        ("https://app.example/cb", "https://app.example/CB"),
        ("https://app.example/cb", "https://app.example/c%62"),
        ("https://app.example/cb", "https://app.example/x/../cb"),
        ("https://app.example/cb", "https://app.example:443/cb"),
        ("https://app.example/cb", "https://app.example.evil.example/cb"),
        ("https://app.example:1/cb", "https://app.example:2/cb"),
        ("https://127.0.0.1:1/cb", "https://127.0.0.1:2/cb"),
        ("cursor://x:1/cb", "cursor://x:2/cb"),
        ("http://127.0.0.1/cb", "http://localhost/cb"),
        ("http://localhost/cb", "http://127.0.0.1/cb"),
        ("http://[::1]/cb", "http://127.0.0.1/cb"),
        ("http://[::1]/cb", "http://localhost/cb"),
        ("http://localhost/cb", "http://[::1]/cb"),
        ("http://127.0.0.1/cb", "http://[::1]/cb"),
        ("http://127.0.0.1/cb", "https://127.0.0.1/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb#x"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000@evil.example/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:@evil.example/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:05000/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:٣/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:1٣/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb"),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/other"),
        ("http://127.0.0.1/cb", ""),
        ("http://localhostx/cb", "http://localhost:1x/cb"),
    ],
)
def test_nothing_else_may_differ(registered: str, given: str):
    assert not redirects.matches(registered, given)


@given(st.sampled_from(ALLOWED), st.text())
def test_whatever_follows_a_registered_uri_makes_another(registered: str, more: str):
    assert redirects.matches(registered, registered + more) == (not more)


def test_a_request_gets_exactly_what_it_named():
    assert redirects.chosen(CLIENT, "https://app.example/cb") == "https://app.example/cb"
    assert redirects.chosen(CLIENT, "http://127.0.0.1:5/cb") == "http://127.0.0.1:5/cb"


def test_a_request_that_names_none_gets_the_only_one():
    only = replace(CLIENT, redirect_uris=("https://app.example/cb",))
    assert redirects.chosen(only, None) == "https://app.example/cb"
    for client in (CLIENT, replace(CLIENT, redirect_uris=())):
        with pytest.raises(OAuthError):
            redirects.chosen(client, None)


@given(st.text(), st.sampled_from(redirects.LOOPBACK))
@example("1٣", "127.0.0.1")
@example("99999", "localhost")
def test_a_loopback_port_is_a_number_that_a_port_can_be(port: str, host: str):
    if redirects.matches(f"http://{host}/cb", f"http://{host}:{port}/cb"):
        assert port.isascii() and 1 <= int(port) <= 65_535


@given(st.text())
@example("https://[")
def test_a_request_that_names_another_is_refused(uri: str):
    with pytest.raises(OAuthError):
        redirects.chosen(CLIENT, uri)


@pytest.mark.parametrize(
    ("uri", "shown", "source", "loopback"),
    [
        ("https://app.example/cb?x=1", "app.example", "https://app.example", False),
        ("https://app.example:8443/cb", "app.example:8443", "https://app.example:8443", False),
        ("http://127.0.0.1:5/cb", "127.0.0.1:5", "http://127.0.0.1:5", True),
        ("http://localhost/cb", "localhost", "http://localhost", True),
        ("https://localhost:8443/cb", "localhost:8443", "https://localhost:8443", True),
        ("https://localhost.example/cb", "localhost.example", "https://localhost.example", False),
        # The policy has no notation for IPv6 hosts.
        ("http://[::1]:5/cb", "[::1]:5", "http:", True),
        ("cursor://anysphere.cursor-mcp/cb", "cursor:", "cursor:", False),
    ],
)
def test_people_and_browsers_are_told_where_the_code_goes(uri: str, shown: str, source: str, loopback: bool):
    assert redirects.host_shown(uri) == shown
    assert redirects.form_action(uri) == source
    assert redirects.is_loopback(uri) is loopback
