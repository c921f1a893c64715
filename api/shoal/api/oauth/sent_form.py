"""A form of the owner's pages, as it comes back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from shoal.api.messages import Language
from shoal.api.oauth import handles, identity
from shoal.api.oauth.authority import Authority, authority_of
from shoal.api.oauth.forms import read_form
from shoal.api.oauth.handles import HandleRefused
from shoal.api.oauth.pages import language_for
from shoal.api.oauth.sessions import Session


@dataclass(frozen=True, slots=True)
class SentForm:
    """A form that may be followed: the session is the owner's, the handle was good and is used up."""

    authority: Authority
    session: Session
    language: Language
    fields: Mapping[str, str]
    payload: Mapping[str, Any]
    """What the handle held since the form was shown."""


async def take(request: Request, purpose: str) -> SentForm:
    """Return the form that a request brings, which can't be sent again. Raises OAuthError, HandleRefused."""
    authority = authority_of(request.scope)
    fields = await read_form(request)
    session = await identity.current(authority, request.headers)
    if session is None:
        raise HandleRefused
    payload = await handles.take(authority, session, purpose, fields.get("handle", ""))
    return SentForm(authority, session, language_for(request.headers), fields, payload)
