"""POST /consent: what the owner has decided."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shoal.api.oauth import consent_page, grants, returning, sent_form
from shoal.api.oauth.asked import Asked, Unanswerable, known_still
from shoal.api.oauth.authorize import unanswerable
from shoal.api.oauth.choices import ChoiceRefused, Offer, chosen, expiry
from shoal.api.oauth.consent_page import ALLOW, PURPOSE
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.grants import Approval
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.pages import language_for, problem
from shoal.api.oauth.words import Line

_DENIED: Final = "The owner did not allow it."


async def consent(request: Request) -> Response:
    """Let an app in as far as the owner has checked, or send it away.

    The form says only what was checked: who asked for what stands in its handle, and the app is looked up again.
    """
    try:
        sent = await sent_form.take(request, PURPOSE)
    except HandleRefused as refused:
        return problem(language_for(request.headers), Line.FORM_GONE, Line.FORM_GONE_MEND, status=refused.status)
    authority, language, form, payload = sent.authority, sent.language, sent.fields, sent.payload
    asked, offer = Asked.from_payload(payload["asked"]), Offer.from_payload(payload["offer"])
    try:
        client = await known_still(authority, asked)
    except Unanswerable as error:
        return unanswerable(error, language)
    denied = OAuthError(Code.ACCESS_DENIED, _DENIED)
    if form.get("decision") != ALLOW:
        return returning.refused(authority, language, asked.redirect_uri, asked.state, denied)
    try:
        reach = chosen(offer, form)
    except ChoiceRefused as refused:
        return await consent_page.shown(authority, sent.session, client, asked, language, given=form, refused=refused)
    if not reach.spaces:
        return returning.refused(authority, language, asked.redirect_uri, asked.state, denied)
    approval = Approval(
        client=client,
        redirect_uri=asked.redirect_uri,
        redirect_uri_given=asked.redirect_uri_given,
        challenge=asked.challenge,
        scopes=asked.scopes & reach.scopes,
        reach=reach,
        resource=asked.resource,
        expires_at=expiry(form, authority.clock()),
    )
    code = await grants.approve(authority, approval)
    return returning.answered(authority, language, asked.redirect_uri, asked.state, {"code": code})
