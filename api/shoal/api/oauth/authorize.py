"""GET /authorize: where apps send the owner's browser to ask for access."""

import string
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import asked, consent_page, identity, returning
from shoal.api.oauth.asked import Refused, Unanswerable
from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.login_page import login_page
from shoal.api.oauth.pages import language_for, page, paragraph
from shoal.api.oauth.paths import AUTHORIZE
from shoal.api.oauth.words import Line


async def authorize(request: Request) -> Response:
    """Ask the owner about a request, signing in first where need be; tell app or owner what is wrong with it.

    Nothing is written for a visitor who isn't signed in.
    """
    authority = authority_of(request.scope)
    language = language_for(request.headers)
    query = query_of(request)
    try:
        client, wanted = await asked.read(authority, query)
    except Unanswerable as error:
        return unanswerable(error, language)
    except Refused as refused:
        return await _refused(request, authority, language, query, refused)
    session = await identity.current(authority, request.headers)
    if session is None:
        return _login(authority, language, query, wanted.redirect_uri)
    return await consent_page.shown(authority, session, client, wanted, language)


def query_of(request: Request) -> str:
    """Return a request's query as it came, anything but visible ASCII percent-encoded."""
    raw: bytes = request.scope["query_string"]
    return quote(raw, safe=string.punctuation)


def unanswerable(error: Unanswerable, language: Language) -> Response:
    """Return the page that tells the owner why an app can't be answered."""
    detail = "" if error.detail is None else paragraph(Line.DETAIL, language, class_="soft", detail=error.detail)
    return page(language, error.title, paragraph(error.mend, language), detail, status=error.status)


async def login_form_actions(authority: Authority, next_: str) -> tuple[str, ...]:
    """Return the CSP sources for a login form that leads on to `next_`: where its app may be answered at once."""
    path, _, query = next_.partition("?")
    if path != AUTHORIZE:
        return ()
    try:
        _, wanted = await asked.read(authority, query)
    except Unanswerable:
        return ()
    except Refused as refused:
        return returning.form_actions(authority, refused.redirect_uri)
    return returning.form_actions(authority, wanted.redirect_uri)


async def _refused(
    request: Request, authority: Authority, language: Language, query: str, refused: Refused
) -> Response:
    if refused.waits_for_owner and await identity.current(authority, request.headers) is None:
        return _login(authority, language, query, refused.redirect_uri)
    return returning.refused(authority, language, refused.redirect_uri, refused.state, refused.error)


def _login(authority: Authority, language: Language, query: str, redirect_uri: str) -> Response:
    sources = returning.form_actions(authority, redirect_uri)
    return login_page(language, f"{AUTHORIZE}?{query}", form_actions=sources)
