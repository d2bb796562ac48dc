"""JAAS configurations as Java clients have them; what is refused is named without a value."""

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.jaas import LOGIN_MODULES, check_login_module, extensions_of, read_login_module
from mirrorlake.security import LoginModule, SaslMechanism

PLAIN = LOGIN_MODULES[SaslMechanism.PLAIN]
BEARER = LOGIN_MODULES[SaslMechanism.OAUTHBEARER]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="app" password="pw";', {"username": "app", "password": "pw"}),
        (f"{PLAIN} required username='a b' password=\"x'y\" ;", {"username": "a b", "password": "x'y"}),
        (f"{PLAIN}\n  required\n  username=app\n  password = pw;\n", {"username": "app", "password": "pw"}),
        (rf'{PLAIN} required password="q\"uote\\slash;=";', {"password": 'q"uote\\slash;='}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_options_are_read(text: str, options: dict[str, str]) -> None:
    module = read_login_module(text)
    assert (module.class_name, module.options) == (PLAIN, options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not begin"),
        (f'{PLAIN} username="app";', "does not begin"),
        (f'{PLAIN} required username="hunter2"', "does not end with a semicolon"),
        (f"{PLAIN} required username=hunter2 hunter3;", "option 2 is not of the form"),
        (f'{PLAIN} required username="hunter2;', "a quote that does not end"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "more than one"),
        (f"{PLAIN} required password=;", "option 1 is not of the form"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_content(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_login_module(text)
    assert "hunter" not in str(caught.value)


def test_a_module_of_another_mechanism_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"another login module than sasl\.mechanism SCRAM-SHA-256"):
        check_login_module(read_login_module(f"{PLAIN} required;"), SaslMechanism.SCRAM_SHA_256)


def test_an_option_that_would_be_ignored_is_refused_by_number() -> None:
    module = read_login_module(f"{PLAIN} required username=a hunter2=b;")
    with pytest.raises(ConfigurationError, match="option 2") as caught:
        check_login_module(module, SaslMechanism.PLAIN)
    assert "hunter2" not in str(caught.value)


def test_extensions_belong_to_oauthbearer() -> None:
    module = read_login_module(f"{BEARER} required clientId=c extension_pool='p 1';")
    check_login_module(module, SaslMechanism.OAUTHBEARER)
    assert extensions_of(module) == {"pool": "p 1"}


def test_a_login_module_never_shows_its_options() -> None:
    assert "hunter2" not in repr(LoginModule(class_name=PLAIN, options={"password": "hunter2"}))
