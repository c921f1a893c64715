"""Whatever order refresh tokens are used in, the same are good as in a model of the rule that has no database."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from starlette.types import Scope as HttpScope
from tests.api.oauth.doubles import Clock, made_authority
from tests.api.oauth.flow import Together, app, connected, refresh

from shoal.api.oauth.errors import Code, OAuthError
from shoal.api.oauth.gate import TokenGate
from shoal.schema.errors import Unauthorized

IDLE_MS = 30 * 86_400_000


@dataclass
class Node:
    """A refresh token of the model: which it was made from, and which of those made from it was used first."""

    token: str
    access: str
    parent: "Node | None"
    made_at: int
    spent_by: "Node | None" = None

    @property
    def usable(self) -> bool:
        return self.spent_by is None and (self.parent is None or self.parent.spent_by in (None, self))


class Family(RuleBasedStateMachine):
    """One connection, its tokens, and the model of them."""

    nodes = Bundle("nodes")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.revoked = False
        self.known: list[Node] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.loop.close()

    @initialize(target=nodes)
    def connect(self) -> Node:
        self.authority = self.run(made_authority(self.clock))
        return self.made(self.run(connected(self.authority)), None)

    @rule(target=nodes, node=nodes)
    def use(self, node: Node) -> Any:
        return self.judged(node, self.run(_attempt(refresh(self.authority, node.token))))

    @rule(target=nodes, one=nodes, other=nodes)
    def use_two_at_once(self, one: Node, other: Node) -> Any:
        both = replace(self.authority, database=Together(self.authority.database))

        async def race() -> list[Any]:
            return await asyncio.gather(*(_attempt(refresh(both, node.token)) for node in (one, other)))

        # One that has expired is refused by what was read; of those that write, the order of writing counts.
        over = [node.usable and self.expired(node) for node in (one, other)]
        first, second = self.run(race())
        made = [self.judged(one, first, over[0]), self.judged(other, second, over[1])]
        return multiple(*(node for node in made if isinstance(node, Node)))

    @rule(node=nodes)
    def another_client_shows_it(self, node: Node) -> None:
        answer = self.run(_attempt(refresh(self.authority, node.token, app("other"))))
        assert isinstance(answer, OAuthError)
        self.revoked = self.revoked or not node.usable

    @rule(node=nodes)
    def ask_for_more(self, node: Node) -> None:
        answer = self.run(_attempt(refresh(self.authority, node.token, scope="memory:admin")))
        assert isinstance(answer, OAuthError)
        expected = Code.INVALID_SCOPE if self.good(node) else Code.INVALID_GRANT
        assert answer.code is expected
        self.revoked = self.revoked or not node.usable

    @rule(days=st.integers(1, 20))
    def wait(self, days: int) -> None:
        self.clock.forward(days=days)

    @invariant()
    def access_tokens_live_an_hour_and_as_long_as_the_grant(self) -> None:
        for node in self.known[-3:]:
            alive = not self.revoked and self.clock() < node.made_at + 3_600_000
            assert self.run(self.admitted(node.access)) == alive

    async def admitted(self, token: str) -> bool:
        scope: HttpScope = {"type": "http", "headers": [(b"authorization", b"Bearer " + token.encode())]}
        try:
            await TokenGate(lambda _scope: self.authority).admit(scope)
        except Unauthorized:
            return False
        return True

    def good(self, node: Node) -> bool:
        return not self.revoked and node.usable and not self.expired(node)

    def expired(self, node: Node) -> bool:
        return self.clock() >= node.made_at + IDLE_MS

    def judged(self, node: Node, answer: Any, over: bool = False) -> Any:
        """Hold an answer against the model, and move the model on; `over`: when read, only its time was over."""
        if self.good(node):
            assert isinstance(answer, dict)
            if node.parent is not None:
                node.parent.spent_by = node
            return self.made(answer, node)
        assert isinstance(answer, OAuthError) and answer.code is Code.INVALID_GRANT
        self.revoked = self.revoked or not (node.usable or over)
        return multiple()

    def made(self, answer: Any, parent: Node | None) -> Node:
        node = Node(answer["refresh_token"], answer["access_token"], parent, self.clock())
        self.known.append(node)
        return node


async def _attempt(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except OAuthError as refusal:
        return refusal


TestFamily = Family.TestCase
TestFamily.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
