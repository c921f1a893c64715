"""Handles of forms: a form is taken once, in the session that it was shown in, for what it was shown for.

So another site can't have the owner's browser send one (CSRF), and what was shown is what is done: the details lie in
the database, not in the form.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from shoal.api.oauth import secrets
from shoal.api.oauth.authority import Authority, sha256
from shoal.api.oauth.secrets import Secret
from shoal.api.oauth.sessions import Session
from shoal.core.protocols import Statement
from shoal.schema.errors import ShoalError

OPEN_FORMS_MAX: Final = 50
"""Forms that a session may have open; the oldest goes for another."""


class HandleRefused(ShoalError):
    """The form is not open: it was used, has expired, or belongs to another session or purpose."""

    code = "handle_refused"
    status = 403

    def __init__(self) -> None:
        super().__init__("This form was used already or has expired.", "Open the page again and send it anew.")


_SHOW: Final = """
insert into owner_form (sha256, session_sha256, purpose, payload, expires_at) values (?1, ?2, ?3, ?4, ?5)
"""
_LEAVE_NEWEST: Final = f"""
delete from owner_form where session_sha256 = ?2 and sha256 not in (
  select sha256 from owner_form where session_sha256 = ?2
  order by sha256 = ?1 desc, expires_at desc limit {OPEN_FORMS_MAX}
)
"""
_TAKE: Final = """
delete from owner_form
where sha256 = ?1 and session_sha256 = ?2 and purpose = ?3 and expires_at > ?4
  and exists (select 1 from owner_session s where s.sha256 = ?2 and s.expires_at > ?4)
returning payload
"""


async def show(authority: Authority, session: Session, purpose: str, payload: Mapping[str, Any]) -> str:
    """Return a new handle for a form of this session, good for `settings.form_s`. `payload` must go into JSON."""
    handle = secrets.make(Secret.FORM, authority.random)
    hashed = sha256(handle)
    expires_at = authority.clock() + authority.settings.form_s * 1000
    told = json.dumps(payload, ensure_ascii=True)
    await authority.database.batch(
        [
            Statement(_SHOW, (hashed, session.sha256, purpose, told, expires_at)),
            Statement(_LEAVE_NEWEST, (hashed, session.sha256)),
        ]
    )
    return handle


async def take(authority: Authority, session: Session, purpose: str, handle: str) -> dict[str, Any]:
    """Use up a handle and return its payload. Of several at once, one gets it. Raises HandleRefused."""
    if not secrets.is_well_formed(handle, Secret.FORM):
        raise HandleRefused
    params = (sha256(handle), session.sha256, purpose, authority.clock())
    (rows,) = await authority.database.batch([Statement(_TAKE, params)])
    if not rows:
        raise HandleRefused
    return json.loads(str(rows[0]["payload"]))
