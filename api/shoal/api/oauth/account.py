"""GET /account and what its forms do: revoke, make a token, set or remove the passphrase."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import account_page, grants, identity, sent_form
from shoal.api.oauth import passphrase as passphrases
from shoal.api.oauth.account_page import PURPOSE, Said
from shoal.api.oauth.authority import authority_of
from shoal.api.oauth.choices import ChoiceRefused, Offer, chosen, expiry, refusal
from shoal.api.oauth.grants import Because
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.login_page import login_page
from shoal.api.oauth.pages import element, language_for, notice, problem, told
from shoal.api.oauth.passphrase import PassphraseRefused
from shoal.api.oauth.paths import ACCOUNT
from shoal.api.oauth.records import NAME_MAX_CHARS
from shoal.api.oauth.sent_form import SentForm
from shoal.api.oauth.words import Line
from shoal.core.text import clean
from shoal.schema.errors import InvalidInput

_DONE: Final = {
    "revoked": Line.REVOKED,
    "gone": Line.GONE_ALREADY,
    "set": Line.PASSPHRASE_CHANGED,
    "removed": Line.PASSPHRASE_REMOVED,
}
"""What the page says after a form was followed, by what its `done` is."""


async def account(request: Request) -> Response:
    """Show the account page, or first the login page."""
    authority = authority_of(request.scope)
    language = language_for(request.headers)
    session = await identity.current(authority, request.headers)
    if session is None:
        return login_page(language, ACCOUNT)
    line = _DONE.get(request.query_params.get("done", ""))
    said = None if line is None else Said(element("p", told(line, language), class_="done", role="status"))
    return await account_page.shown(authority, session, language, said)


async def revoke(request: Request) -> Response:
    """End what an app or a device was allowed, at once."""
    sent = await _sent(request)
    if isinstance(sent, Response):
        return sent
    ended = await grants.revoke(sent.authority, sent.fields.get("grant", ""), Because.OWNER)
    return _back("revoked" if ended else "gone")


async def passphrase(request: Request) -> Response:
    """Set, change or remove the passphrase."""
    sent = await _sent(request)
    if isinstance(sent, Response):
        return sent
    if sent.fields.get("remove"):
        await passphrases.remove_passphrase(sent.authority, sent.session)
        return _back("removed")
    wanted = sent.fields.get("passphrase", "")
    if wanted != sent.fields.get("again", ""):
        return await _again(sent, Said(notice(Line.PASSPHRASES_DIFFER, sent.language), 400))
    try:
        await passphrases.set_passphrase(sent.authority, wanted, sent.session)
    except PassphraseRefused as refused:
        why = (refused.message, refused.mend) if sent.language is Language.ENGLISH else refused.chinese
        return await _again(sent, Said(element("p", " ".join(why), class_="notice", role="alert"), 400))
    return _back("set")


async def token(request: Request) -> Response:
    """Make a token for a device or a script, and show it once."""
    sent = await _sent(request)
    if isinstance(sent, Response):
        return sent
    form, language = sent.fields, sent.language
    try:
        name = _name(form.get("name", ""))
        reach = chosen(Offer.from_payload(sent.payload["offer"]), form)
        if not reach.spaces:
            raise ChoiceRefused(Line.TOKEN_NOTHING)
    except ChoiceRefused as refused:
        return await _again(sent, Said(refusal(refused, language), 400, token_form=form))
    expires_at = expiry(form, sent.authority.clock())
    _, made = await grants.make_device_token(sent.authority, name, "", reach, expires_at)
    return account_page.token_page(sent.authority, language, name, made)


async def _sent(request: Request) -> SentForm | Response:
    try:
        return await sent_form.take(request, PURPOSE)
    except HandleRefused as refused:
        return _gone(language_for(request.headers), refused.status)


async def _again(sent: SentForm, said: Said) -> Response:
    """Return the page anew, saying why the form was not followed."""
    return await account_page.shown(sent.authority, sent.session, sent.language, said)


def _gone(language: Language, status: int) -> Response:
    link = element("p", element("a", told(Line.ACCOUNT, language), href=ACCOUNT))
    return problem(language, Line.FORM_GONE, Line.FORM_GONE_ACCOUNT_MEND, status=status, link=link)


def _back(done: str) -> Response:
    """Return to the page by GET, so that loading it again sends nothing twice."""
    headers = {"Location": f"{ACCOUNT}?done={done}", "Cache-Control": "no-store"}
    return Response(status_code=303, headers=headers)


def _name(given: str) -> str:
    try:
        return clean(given, "name", NAME_MAX_CHARS)
    except InvalidInput as error:
        raise ChoiceRefused(Line.TOKEN_NAME_BAD, limit=str(NAME_MAX_CHARS)) from error
