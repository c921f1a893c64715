"""POST /login and POST /logout: sessions begin and end."""

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.messages import Language
from shoal.api.oauth import handles, identity, sessions
from shoal.api.oauth.account_page import PURPOSE
from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.authorize import login_form_actions
from shoal.api.oauth.forms import read_form
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.identity import SignInRefused
from shoal.api.oauth.login_page import login_page, next_path, why
from shoal.api.oauth.pages import Html, language_for, notice, page, paragraph, problem
from shoal.api.oauth.passphrase import PassphraseUnusable
from shoal.api.oauth.paths import ACCOUNT
from shoal.api.oauth.words import Line


async def login(request: Request) -> Response:
    """Sign the owner in and go on to the page that was asked for; else show the login page again, and why."""
    authority = authority_of(request.scope)
    language = language_for(request.headers)
    # The one form that has no handle: there is no session yet to bind one to.
    if request.headers.get("origin", authority.issuer) != authority.issuer:
        return problem(language, Line.FOREIGN_FORM, Line.FOREIGN_FORM_MEND, status=403)
    form = await read_form(request)
    next_ = next_path(form.get("next", ""))
    try:
        value = await identity.sign_in(authority, form.get("secret", ""))
    except SignInRefused as refused:
        status = 403 if refused.looked_at else 429
        return await _again(authority, language, next_, why(refused, language), status, refused.retry_after_s or None)
    except PassphraseUnusable as unusable:
        return await _again(authority, language, next_, notice(Line.PASSPHRASE_UNUSABLE, language), unusable.status)
    cookie = sessions.cookie(value, authority.settings.session_s)
    return Response(status_code=303, headers={"Location": next_, "Set-Cookie": cookie, "Cache-Control": "no-store"})


async def logout(request: Request) -> Response:
    """End this browser's session, or with `everywhere` all of them."""
    authority = authority_of(request.scope)
    language = language_for(request.headers)
    form = await read_form(request)
    session = await identity.current(authority, request.headers)
    if session is None:
        return Response(status_code=303, headers={"Location": ACCOUNT})
    try:
        await handles.take(authority, session, PURPOSE, form.get("handle", ""))
    except HandleRefused:
        return problem(language, Line.FORM_GONE, Line.FORM_GONE_ACCOUNT_MEND, status=403)
    if form.get("everywhere"):
        await sessions.end_all(authority)
    else:
        await sessions.end(authority, session)
    answer = page(language, Line.SIGNED_OUT, paragraph(Line.SIGNED_OUT_ABOUT, language))
    answer.headers["Set-Cookie"] = sessions.no_cookie()
    return answer


async def _again(
    authority: Authority, language: Language, next_: str, reason: Html, status: int, retry_after_s: int | None = None
) -> Response:
    return login_page(
        language,
        next_,
        refused=reason,
        status=status,
        form_actions=await login_form_actions(authority, next_),
        retry_after_s=retry_after_s,
    )
