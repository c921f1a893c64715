"""An authorization server on the fakes, whose clock, chance and internet belong to the test."""

import pytest
from tests.api.oauth.doubles import Clock, ScriptedFetcher, made_authority

from shoal.api.oauth.authority import Authority


@pytest.fixture
def clock() -> Clock:
    """The authority's clock: stands still until it is set."""
    return Clock()


@pytest.fixture
def fetcher() -> ScriptedFetcher:
    """The authority's internet, empty."""
    return ScriptedFetcher()


@pytest.fixture
async def authority(clock: Clock, fetcher: ScriptedFetcher) -> Authority:
    """An authorization server that knows nobody yet; issuer https://memory.example."""
    return await made_authority(clock, fetcher)
