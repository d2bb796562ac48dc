"""Names of archived schemas: every subject has a folder of its own, in every store."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.schemas.names import (
    VersionName,
    parse_state_name,
    parse_version_name,
    state_name,
    subject_folder,
    subject_of_folder,
)
from mirrorlake.stores.object_store import check_key

SUBJECTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


@given(SUBJECTS)
def test_a_folder_is_a_name_for_every_store_and_says_its_subject_unless_that_is_too_long(subject: str) -> None:
    folder = subject_folder("here", subject)
    assert check_key(folder) == folder
    assert folder.startswith("_mirrorlake/schemas/here/")
    said = subject_of_folder(folder.rpartition("/")[2])
    assert said == subject or (said is None and len(subject) > 20)


@given(st.lists(SUBJECTS, min_size=2, max_size=20, unique=True))
def test_two_subjects_never_share_a_folder(subjects: list[str]) -> None:
    assert len({subject_folder("here", each) for each in subjects}) == len(subjects)


def test_names_are_those_that_the_page_of_the_format_says() -> None:
    assert subject_folder("here", "orders-value") == "_mirrorlake/schemas/here/orders-value"
    assert subject_folder("here", "a/b ~c") == "_mirrorlake/schemas/here/a%2Fb%20%7Ec"
    assert subject_folder("here", "..") == "_mirrorlake/schemas/here/%2E."
    assert subject_folder("here", "_x") == "_mirrorlake/schemas/here/%5Fx"
    long = subject_folder("here", "é" * 100).rpartition("/")[2]
    assert (len(long), long[:6], long[180]) == (213, "%C3%A9", "~")
    assert str(VersionName(version=3, id=17)) == "0000000003-0000000017.json"
    assert state_name(2) == "_subject-0000000002.json"


def test_other_names_are_none_of_ours() -> None:
    assert parse_version_name("0000000003-0000000017.json") == VersionName(version=3, id=17)
    assert parse_state_name("_subject-0000000002.json") == 2
    for name in ("3-17.json", "0000000003-0000000017.json.tmp", "_subject-2.json", "0000000003-٠000000017.json"):
        assert parse_version_name(name) is None
        assert parse_state_name(name) is None
    assert subject_of_folder("a%2fb") is None
