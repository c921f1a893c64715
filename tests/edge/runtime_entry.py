"""A Worker that does with the runtime's own what it is asked to: `POST /{action}` with JSON arguments."""

import base64
import json
from functools import partial

import js
from pyodide.ffi import JsException, to_js
from workers import Response, WorkerEntrypoint

from shoal.api.oauth.ports import FetchFailed
from shoal.worker.budget import Budget
from shoal.worker.fetching import RuntimeFetcher
from shoal.worker.webcrypto import WebCryptography

TO_JS = partial(to_js, dict_converter=js.Object.fromEntries)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        action = request.url.rpartition("/")[2]
        given = json.loads(await request.text())
        try:
            return Response.json(await getattr(self, f"do_{action}")(**given))
        except (JsException, FetchFailed) as error:
            return Response.json({"error": type(error).__name__, "text": str(error)})

    async def do_pbkdf2(self, secret, salt, iterations):
        made = await WebCryptography(js.crypto.subtle, TO_JS).pbkdf2_sha256(secret.encode(), salt.encode(), iterations)
        return made.hex()

    async def do_verify(self, key, signed, signature):
        cryptography = WebCryptography(js.crypto.subtle, TO_JS)
        return await cryptography.verify_rs256(key, signed.encode(), base64.b64decode(signature))

    async def do_get(self, url, timeout_s=5.0, max_bytes=1_000, times=1):
        budget = Budget()
        fetcher = RuntimeFetcher(js, TO_JS, budget)
        for _ in range(times):
            got = await fetcher.fetch(url, accept="application/json", timeout_s=timeout_s, max_bytes=max_bytes)
        return {"status": got.status, "headers": got.headers, "body": got.body.decode(), "calls": budget.calls.total()}
