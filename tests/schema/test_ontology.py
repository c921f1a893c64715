import pytest

from shoal.schema.errors import InvalidSettings, UnknownType
from shoal.schema.ontology import BASE_TYPES, RELATIONS, SYNONYMS, Kind, Ontology

BUILTIN = Ontology.builtin()

# base type: kind, retention in days, number of subtypes
BASES = {
    "observation": ("episodic", 30, 13),
    "decision": ("semantic", 365, 4),
    "learning": ("semantic", 180, 4),
    "error": ("episodic", 90, 6),
    "pattern": ("semantic", 180, 4),
    "planning": ("semantic", 60, 7),
    "ceremony": ("episodic", 30, 5),
    "milestone": ("episodic", 90, 6),
    "stakeholder": ("semantic", 180, 6),
    "meeting": ("episodic", 60, 5),
    "research": ("semantic", 180, 5),
    "communication": ("episodic", 30, 5),
    "procedure": ("procedural", 730, 4),
}
LASTING = ("note", "reference", "document", "preference_signal", "user_correction")


def test_there_are_13_base_types_with_their_kind_retention_and_number_of_subtypes():
    assert {name: (base.kind, base.retention_days, len(base.subtypes)) for name, base in BASE_TYPES.items()} == BASES
    assert len(BUILTIN.names()) == 13 + sum(n for _, _, n in BASES.values())
    assert len(set(BUILTIN.names())) == len(BUILTIN.names())


@pytest.mark.parametrize("name", BUILTIN.names())
def test_a_type_ages_as_its_base_unless_it_states_a_lasting_fact(name):
    info = BUILTIN.info(name)
    kind, retention, _ = BASES[info.base]
    assert (info.name, info.kind, info.retention_days) == (
        (name, "semantic", 365) if name in LASTING else (name, kind, retention)
    )


@pytest.mark.parametrize("kind", Kind)
def test_the_types_of_a_kind_are_exactly_those_of_that_kind(kind):
    assert set(BUILTIN.types_of_kind(kind)) == {name for name in BUILTIN.names() if BUILTIN.info(name).kind is kind}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (None, "note"),
        ("", "note"),
        ("none", "note"),
        ("memory", "note"),
        ("episodic", "observation"),
        ("semantic", "learning"),
        ("procedural", "procedure"),
        ("fact", "reference"),
        ("preference", "preference_signal"),
        ("task", "action_item"),
        ("event", "observation"),
        ("instruction", "how_to"),
        (" Best Practice ", "best_practice"),
        ("code-edit", "code_edit"),
        ("HOW_TO", "how_to"),
    ],
)
def test_other_tools_words_and_spellings_map_to_types(word, name):
    assert BUILTIN.resolve(word).name == name


def test_every_synonym_leads_to_a_type_and_hides_none():
    assert {BUILTIN.resolve(word).name for word in SYNONYMS} <= set(BUILTIN.names())
    assert not SYNONYMS.keys() & set(BUILTIN.names())


def test_an_unknown_type_is_refused_with_all_that_are_allowed():
    with pytest.raises(UnknownType) as raised:
        BUILTIN.resolve("poem")
    assert raised.value.details["types"] == list(BUILTIN.names())
    assert all(name in raised.value.mend for name in BUILTIN.names())


def test_a_filter_by_base_type_covers_its_subtypes_and_by_subtype_only_itself():
    assert set(BUILTIN.types_of("error")) == {"error", *BASE_TYPES["error"].subtypes}
    assert BUILTIN.types_of("bug") == ("bug",)
    assert set(BUILTIN.types_of("procedural")) == {"procedure", *BASE_TYPES["procedure"].subtypes}
    with pytest.raises(UnknownType):
        BUILTIN.types_of("poem")


def test_users_add_subtypes_that_age_as_their_base():
    extended = BUILTIN.extended({"incident": "error"})
    assert extended.resolve("Incident").base == "error"
    assert (extended.info("incident").kind, extended.info("incident").retention_days) == ("episodic", 90)
    assert "incident" in extended.types_of("error")
    with pytest.raises(UnknownType):
        BUILTIN.resolve("incident")


@pytest.mark.parametrize(
    "extra",
    [
        {"incident": "mishap"},
        {"incident": "bug"},
        {"note": "error"},
        {"error": "error"},
        {"": "error"},
        {"two words": "error"},
        {"事故": "error"},
        {"Incident": "error"},
        {"fact": "error"},
        {"_": "error"},
    ],
)
def test_a_subtype_that_is_taken_malformed_or_homeless_is_refused(extra):
    with pytest.raises(InvalidSettings):
        BUILTIN.extended(extra)


def test_a_type_that_another_replicas_user_added_counts_as_an_observation():
    info = BUILTIN.info("their_own_type")
    assert (info.name, info.base, info.kind, info.retention_days) == ("their_own_type", "observation", "episodic", 30)


def test_relations_say_which_have_no_direction():
    assert {name for name, info in RELATIONS.items() if info.symmetric} == {"contradicts", "related", "shares_entity"}
    assert len(RELATIONS) == 14
    for info in RELATIONS.values():
        assert set(info.sources + info.targets) <= BASE_TYPES.keys()
