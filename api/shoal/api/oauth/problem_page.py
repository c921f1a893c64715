"""What people see in place of a page that can't be shown."""

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope as HttpScope

from shoal.api.oauth.errors import OAuthError
from shoal.api.oauth.pages import element, language_for, page, paragraph, problem
from shoal.api.oauth.words import Line
from shoal.schema.errors import MethodNotAllowed, NotFound, OriginNotAllowed, RateLimited, ShoalError


def problem_page(error: ShoalError, request_id: str, scope: HttpScope) -> Response:
    """Return the page of an error: what it means for the person, and what it says to whoever looks after the server."""
    language = language_for(Headers(scope=scope))
    match error:
        case NotFound() | MethodNotAllowed():
            return problem(language, Line.NO_SUCH_PAGE, Line.NO_SUCH_PAGE_MEND, status=error.status)
        case OriginNotAllowed():
            return problem(language, Line.FOREIGN_FORM, Line.FOREIGN_FORM_MEND, status=error.status)
        case RateLimited():
            return problem(language, Line.TOO_OFTEN, Line.TOO_OFTEN_MEND, status=error.status)
        case _:
            detail = element("p", f"{error.message} {error.mend} ({request_id})", class_="soft", lang="en")
            mend = paragraph(Line.NOT_SHOWN_MEND, language)
            return page(language, Line.NOT_SHOWN, mend, detail, status=error.status)


def unreadable_page(error: OAuthError, scope: HttpScope) -> Response:
    """Return the page for a form or a query that can't be read."""
    language = language_for(Headers(scope=scope))
    detail = paragraph(Line.DETAIL, language, class_="soft", detail=error.description)
    return page(language, Line.UNREADABLE, paragraph(Line.UNREADABLE_MEND, language), detail, status=error.status)
