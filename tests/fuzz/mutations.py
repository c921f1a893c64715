"""How a valid request becomes one that nobody would send."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, quote_from_bytes

from tests.fuzz.place import HIDDEN, Place
from tests.fuzz.requests import Asked

AT_ONCE: Final = (1, 1, 1, 2, 2, 3, 4)
"""How many changes a request gets: mostly few, or it is refused for the first of them."""
DEEP: Final = 3_000
"""Brackets inside each other: more than Python's parser follows."""
LONG: Final = 70_000
"""Characters: more than a memory may have."""

ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1.5,
    -0.0,
    1e308,
    2**31,
    2**53,
    2**63,
    -(2**63) - 1,
    10**400,
    float("nan"),
    float("inf"),
    "",
    " ",
    "*",
    "\x00",
    "a\x00b",
    "\ud800",
    "\u202e\u200b\ufeff",
    "ﷺ" * 50,
    "咖啡",
    "http://evil.example/cb",
    "javascript:alert(1)//",
    "https://a@127.0.0.1:1/#x",
    "' or 1=1 --",
    '" OR NEAR(*) AND',
    "%%%_\\",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "1969-12-31T23:59:60Z",
    "9999-12-31T23:59:59.999999+14:00",
    "0000-00-00",
    "last week",
    "x" * LONG,
    [],
    {},
    [[[[]]]],
    {"": ""},
    [None] * 200,
    list(range(2_000)),
    {str(n): n for n in range(300)},
)
ODD_TEXTS: Final = tuple(value for value in ODD_VALUES if isinstance(value, str))
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE", "PROPFIND")
"""None that a server's parser of HTTP refuses by itself, before any code of ours."""
CONTENT_TYPES: Final = (
    "application/json",
    "application/json; charset=utf-16",
    "application/json;charset=nonsense",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain",
    "text/event-stream",
    "application/xml",
    "",
    "/",
    "application/json, application/json",
)
ODD_HEADERS: Final = (
    ("accept", "text/event-stream"),
    ("accept", ""),
    ("accept-language", "zh-CN,zh;q=0.9"),
    ("accept-language", ";;q=,*;q=2,,"),
    ("authorization", "Bearer"),
    ("authorization", "Basic b3duZXI6b3duZXI="),
    ("authorization", f"Bearer shoal_a_{'A' * 43}"),
    ("authorization", f"Bearer {'x' * 4000}"),
    ("content-encoding", "gzip"),
    ("cookie", "__Host-shoal=x; __Host-shoal=y"),
    ("expect", "100-continue"),
    ("if-none-match", "*"),
    ("mcp-method", "tools/list"),
    ("mcp-name", "=?base64?!!!?="),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-protocol-version", "1999-01-01"),
    ("mcp-protocol-version", ""),
    ("mcp-session-id", "0"),
    ("origin", "null"),
    ("origin", "https://app.example.com"),
    ("origin", "https://evil.example"),
    ("range", "bytes=0-1"),
    ("shoal-profile", "classic"),
    ("shoal-profile", "nobody"),
    ("shoal-time-zone", "Mars/Olympus"),
    ("shoal-time-zone", "../UTC"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-forwarded-host", "evil.example"),
    ("x-http-method-override", "DELETE"),
    ("x-request-id", "a" * 300),
    ("x-request-id", "r\u00e9"),
)
FORM: Final = ("content-type", "application/x-www-form-urlencoded")


class Mutator:
    """Changes requests by chance alone: the same seed makes the same ones."""

    def __init__(self, seed: int, place: Place) -> None:
        self._random = random.Random(seed)
        self._place = place
        self._ids = [*place.hidden, *place.shown]
        self._kinds: Sequence[Callable[[Asked], Asked]] = (
            self._json_value,
            self._json_value,
            self._json_value,
            self._json_shape,
            self._bytes,
            self._method,
            self._path,
            self._query,
            self._query,
            self._header,
            self._header,
            self._content_type,
        )

    def choose(self, among: Sequence[Asked]) -> Asked:
        """Return one of these, changed one to a few times."""
        asked = self._random.choice(among)
        for _ in range(self._random.choice(AT_ONCE)):
            asked = self._random.choice(self._kinds)(asked)
        return asked

    def value(self) -> Any:
        """Return a value that someone may put anywhere; often one that leads to what the token may not see."""
        if self._random.random() < 0.3:
            return self._random.choice([*self._ids, HIDDEN, "*", [HIDDEN], list(self._place.hidden)])
        return self._random.choice(ODD_VALUES)

    def text(self) -> str:
        """Return the same as text."""
        value = self.value()
        return value if isinstance(value, str) else json.dumps(value)[:LONG]

    # Bodies

    def _json_value(self, asked: Asked) -> Asked:
        """Put an odd value in the place of one, or under a new or a known name."""
        return self._rewritten(asked, self._replaced)

    def _json_shape(self, asked: Asked) -> Asked:
        """Wrap, repeat, nest or drop."""
        chance = self._random
        wrap: Sequence[Callable[[Any], Any]] = (
            lambda document: [document],
            lambda document: [document] * 30,
            lambda document: [],
            lambda document: {"arguments": document},
            self._without,
            lambda document: self.value(),
        )
        if chance.random() < 0.1:
            return replace(asked, body=b"[" * DEEP + b"]" * DEEP)
        return self._rewritten(asked, chance.choice(wrap))

    def _rewritten(self, asked: Asked, change: Callable[[Any], Any]) -> Asked:
        if (FORM in asked.headers) and asked.body:
            return replace(asked, body=self._changed_pairs(asked.body))
        try:
            document = json.loads(asked.body)
        except (ValueError, RecursionError):
            return self._query(asked)
        return replace(asked, body=json.dumps(change(document)).encode())

    def _replaced(self, document: Any) -> Any:
        chance = self._random
        if isinstance(document, dict) and document:
            name = chance.choice([*document, *NAMES]) if chance.random() < 0.4 else chance.choice(list(document))
            inner = document.get(name)
            deeper = isinstance(inner, dict | list) and inner and chance.random() < 0.6
            return {**document, name: self._replaced(inner) if deeper else self.value()}
        if isinstance(document, list) and document:
            place = chance.randrange(len(document))
            return [*document[:place], self._replaced(document[place]), *document[place + 1 :]]
        return self.value()

    def _without(self, document: Any) -> Any:
        if not isinstance(document, dict) or not document:
            return document
        gone = self._random.choice(list(document))
        return {name: value for name, value in document.items() if name != gone}

    def _bytes(self, asked: Asked) -> Asked:
        """Cut, flip, insert or repeat."""
        chance, body = self._random, asked.body
        at = chance.randint(0, len(body))
        junk = bytes(chance.randrange(256) for _ in range(chance.randint(1, 20)))
        changes = (
            body[:at],
            body[:at] + junk + body[at:],
            body[:at] + junk + body[at + len(junk) :],
            body + body,
            junk,
        )
        return replace(asked, body=chance.choice(changes))

    # The rest

    def _method(self, asked: Asked) -> Asked:
        return replace(asked, method=self._random.choice(METHODS))

    def _path(self, asked: Asked) -> Asked:
        chance = self._random
        path, mark, query = asked.target.partition(b"?")
        parts = path.split(b"/")
        at = chance.randrange(1, len(parts))
        odd = quote(self.text().encode(errors="surrogatepass")[:2_000], safe="").encode()
        changed = chance.choice(
            (
                b"/" + path,
                path + b"/",
                path.upper(),
                b"/" + path[1:].replace(b"/", b"%2f", 2),
                path + b"/.." + path,
                path + b";x=1",
                path + b"%00",
                path + b"%ff%fe",
                b"/".join([*parts[:at], odd, *parts[at + 1 :]]),
                b"/".join([*parts[:at], chance.choice(self._ids).encode(), *parts[at + 1 :]]),
                b"/" + b"/".join([*parts[1:at], *parts[at + 1 :]]),
            )
        )
        return replace(asked, target=changed + mark + query)

    def _query(self, asked: Asked) -> Asked:
        path, _, query = asked.target.partition(b"?")
        return replace(asked, target=path + b"?" + self._changed_pairs(query))

    def _changed_pairs(self, query: bytes) -> bytes:
        """Give a pair another value, or add one, or leave one out."""
        chance = self._random
        pairs = [pair for pair in query.split(b"&") if pair]
        value = quote(self.text().encode(errors="surrogatepass")[:3_000], safe="").encode()
        if pairs and chance.random() < 0.5:
            at = chance.randrange(len(pairs))
            pairs[at] = pairs[at].partition(b"=")[0] + b"=" + value
            return b"&".join(pairs)
        name = chance.choice(NAMES).encode()
        known = chance.choice(pairs).partition(b"=")[0] if pairs else b"query"
        junk = quote_from_bytes(bytes(chance.randrange(256) for _ in range(5))).encode()
        pairs.append(chance.choice((name + b"=" + value, known + b"=" + value, junk, b"=", b"&&", b"%", b"a=%zz")))
        if chance.random() < 0.2:
            del pairs[chance.randrange(len(pairs))]
        return b"&".join(pairs)

    def _header(self, asked: Asked) -> Asked:
        chance = self._random
        name, value = chance.choice(ODD_HEADERS)
        kept = asked.headers if chance.random() < 0.3 else [pair for pair in asked.headers if pair[0] != name]
        said = [*kept, (name, value)] if chance.random() < 0.85 else kept
        return replace(asked, headers=said)

    def _content_type(self, asked: Asked) -> Asked:
        kept = [pair for pair in asked.headers if pair[0] != "content-type"]
        return replace(asked, headers=[*kept, ("content-type", self._random.choice(CONTENT_TYPES))])


NAMES: Final = (
    *"content type tags metadata source entities occurred_at conversation_id position importance items wait".split(),
    *"revive space time_zone query n_results min_score include_archived include_edges explain id ids".split(),
    *"with_edges with_history page page_size order trash kind tags_mode entity since until time time_field".split(),
    *"client_id client_secret redirect_uri redirect_uris scope state code code_verifier refresh_token resource".split(),
    *"grant_type response_type code_challenge code_challenge_method token client_name form next secret".split(),
    *"dry_run confirm purge reason archived profile name arguments uri params method jsonrpc _meta".split(),
)
"""Of parameters, of any request."""
