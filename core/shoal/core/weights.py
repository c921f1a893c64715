"""How much ranking fetches and how much each part of it counts, with the reasons. Figures: docs/ranking.md."""

from dataclasses import dataclass
from typing import Final

TERM_HITS: Final = 100
"""Passages to fetch for each term."""

VECTOR_HITS: Final = 100
"""Passages to fetch for each vector of the query. 200 find .001 more on LoCoMo and take 1.3 ms more of 8."""

LABEL_HITS: Final = 50
"""Memories to fetch for each term from types, tags and entities."""

SHORTLIST: Final = 80
"""Memories to fetch rows for, with their neighbours, out of all that the channels found."""

REACH: Final = 2
"""Positions on either side that lend their words. Fetch these neighbours of every candidate too."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts. The defaults that data could judge lie on plateaus (docs/ranking.md)."""

    lexical: float = 0.7
    vector: float = 0.3
    """The balance: saying all of the query best equals a bit more than twice the cosine of a typical answer."""

    step: float = 0.5
    """Share of a word's bm25 that a memory lends to one a position away; its square at two."""

    conversation: float = 0.3
    """Part of the conversation's best that each of its memories gets. One without a conversation is its own best, so
    nothing changes for it."""

    label: float = 0.6
    """A word in type, tags or entities beside the same word in the content, which says more."""

    time: float = 0.35
    """Added inside the time that the query names: half of its words. So 'decided yesterday' prefers what was decided
    then, and a memory that says the whole query still comes before one that merely happened then."""

    only_time: float = 0.9
    """The same where the query names nothing else ('what did we do yesterday'): more than any chance likeness, less
    than `verbatim`."""

    verbatim: float = 1.0
    """Added when the content is the query's text: it comes first, also before a neighbour that quotes it."""

    strength: float = 0.05
    """What full strength adds, as a share. Priors decide between near equals, never against relevance."""

    recency: float = 0.05
    """What having happened now adds, as a share; halved every `recency_days`."""

    recency_days: float = 90.0

    superseded: float = 0.25
    """Share that a superseded memory loses: it comes after its successor, and does not vanish."""

    uncalibrated: float = 1.0
    """What the nearest memory's vector counts when nobody measured the model; the farthest in the list counts 0."""

    vector_span: float = 3.0
    """A cosine is no evidence at the model's `unrelated` and full evidence at this many times the distance from
    there to `related`: the best of thousands of unrelated memories reaches `related` by chance."""


DEFAULT_WEIGHTS: Final = Weights()

UNCALIBRATED_ANSWER: Final = 0.5
"""How surely vectors of a model that nobody measured answer: neither for nor against."""

TIME_ANSWER: Final = 0.3
"""How surely lying in the time that the query names answers it, whatever else it asks; fully where it asks no more."""
