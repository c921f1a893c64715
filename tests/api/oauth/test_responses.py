import json

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.api.oauth.doubles import request_of

from shoal.api.oauth.authority import Authority
from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.responses import answering, refused, told


def assert_not_kept(answer: Response) -> None:
    assert answer.headers["cache-control"] == "no-store" and answer.headers["pragma"] == "no-cache"


def test_no_cache_keeps_an_answer():
    answer = told({"access_token": "x"}, 201)
    assert (answer.status_code, json.loads(bytes(answer.body))) == (201, {"access_token": "x"})
    assert answer.media_type == "application/json"
    assert_not_kept(answer)


@pytest.mark.parametrize("code", Code)
def test_a_refusal_names_its_code_and_says_what_to_do(code: Code):
    answer = refused(OAuthError(code, "Do this."))
    assert json.loads(bytes(answer.body)) == {"error": code.value, "error_description": "Do this."}
    assert ("www-authenticate" in answer.headers) == (answer.status_code == 401)
    assert_not_kept(answer)


def test_a_client_that_is_not_known_is_told_how_it_may_show_itself():
    answer = refused(OAuthError(Code.INVALID_CLIENT, "No."))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Basic realm="shoal"')


def test_whoever_comes_too_often_is_told_when_to_come_back():
    answer = refused(OAuthError(Code.TEMPORARILY_UNAVAILABLE, "Later.", retry_after_s=60))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert "retry-after" not in refused(OAuthError(Code.INVALID_REQUEST, "No.")).headers


async def test_an_endpoint_refuses_by_raising(authority: Authority):
    @answering
    async def endpoint(request: Request) -> Response:
        """Say this."""
        if not await request.body():
            raise OAuthError(Code.INVALID_GRANT, "It is empty.")
        return told({})

    assert (await endpoint(request_of(authority, "x"))).status_code == 200
    answer = await endpoint(request_of(authority))
    assert (answer.status_code, json.loads(bytes(answer.body))["error"]) == (400, "invalid_grant")
    assert endpoint.__doc__ == "Say this."


async def test_a_fault_of_ours_is_not_taken_for_a_refusal(authority: Authority):
    @answering
    async def endpoint(_request: Request) -> Response:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        await endpoint(request_of(authority))
