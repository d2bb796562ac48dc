import pytest

from mirrorlake.config.expansion import ExpandedText, ExpansionError, expand

ENVIRON = {"HOST": "east", "EMPTY": "", "NESTED": "${HOST}", "DOLLARS": "$$"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("${HOST}:9092", "east:9092"),
        ("${HOST}-${HOST}", "east-east"),
        ("${MISSING:-west}", "west"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-west}", "west"),
        ("${EMPTY}", ""),
        ("${HOST:-west}", "east"),
        ("$${HOST}", "${HOST}"),
        ("cost: 5$$", "cost: 5$"),
        ("/orders$/", "/orders$/"),
        ("$HOST", "$HOST"),
        ("${MISSING:-a:b-c}", "a:b-c"),
    ],
)
def test_references_are_filled_in(text: str, expanded: str) -> None:
    assert expand(text, ENVIRON) == expanded


def test_what_a_variable_holds_is_not_expanded_again() -> None:
    assert expand("${NESTED}", ENVIRON) == "${HOST}"
    assert expand("${DOLLARS}", ENVIRON) == "$$"


def test_what_a_default_holds_is_not_expanded_again() -> None:
    assert expand("${MISSING:-$$}", ENVIRON) == "$$"


def test_an_expanded_text_knows_its_variables() -> None:
    text = expand("${HOST}:${PORT:-9092}", ENVIRON)
    assert isinstance(text, ExpandedText)
    assert text.variables == ("HOST", "PORT")


def test_an_unset_variable_is_an_error_that_names_it() -> None:
    with pytest.raises(ExpansionError, match="MISSING is not set") as caught:
        expand("a ${MISSING}", ENVIRON)
    assert caught.value.hint == "set it, or correct the name"


@pytest.mark.parametrize("text", ["${", "${HOST", "${1}", "${HO ST}", "${HOST-default}", "${}"])
def test_a_brace_that_opens_no_variable_is_an_error(text: str) -> None:
    with pytest.raises(ExpansionError, match="does not open a variable"):
        expand(text, ENVIRON)
