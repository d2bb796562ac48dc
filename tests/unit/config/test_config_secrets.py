import pickle
import traceback
from pathlib import Path

import pytest

from mirrorlake.config.client_properties import read_properties
from mirrorlake.config.document import Tree, read_document
from mirrorlake.config.problems import ConfigurationErrors, ProblemList
from mirrorlake.errors import ConfigurationError
from mirrorlake.secret import Secret
from unit.config.config_texts import kafka, load, messages

EAST = '"east:9092"'
PASSWORD = "hunter2"


def read(text: str) -> tuple[dict[str, Secret], list[str]]:
    """Returns the secrets among a cluster's properties, and the problems."""
    problems = ProblemList()
    document = read_document(text.encode(), file="c.yaml", environ={"P": PASSWORD}, problems=problems)
    tree: Tree = document.tree
    assert isinstance(tree, dict)
    found = read_properties(tree, (), document)
    assert PASSWORD not in repr(found)
    return found.secrets, [str(problem) for problem in problems.found]


def test_a_secret_comes_from_a_variable() -> None:
    secrets, problems = read("sasl.password: ${P}")
    assert problems == []
    assert secrets["sasl.password"].reveal() == PASSWORD


def test_a_secret_comes_from_a_file_read_when_needed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    secrets, problems = read(f"sasl.password: {{file: {file}}}")
    assert problems == []
    file.write_text("first\n")
    assert secrets["sasl.password"].reveal() == "first"
    file.write_text("second")
    assert secrets["sasl.password"].reveal() == "second"


def test_a_secrets_file_that_is_missing_is_named(tmp_path: Path) -> None:
    secret = Secret(file=tmp_path / "none")
    with pytest.raises(ConfigurationError, match="none cannot be read: No such file"):
        secret.reveal()


@pytest.mark.parametrize("value", [PASSWORD, f'"{PASSWORD}"', "12345", f"[{PASSWORD}]", "{file: 5}", "{fil: /x}"])
def test_a_secret_in_clear_is_refused_and_not_repeated(value: str) -> None:
    secrets, problems = read(f"ssl.key.password: {value}")
    assert secrets == {}
    assert problems == [
        'c.yaml:1: ["ssl.key.password"]: a secret may not be in the file (write ${NAME} or {file: /path/of/it})'
    ]


DEFAULTS = ("${P:-hunter2}", "${NONE:-hunter2}", "${P:-}", "user:${P:-hunter2}")

SECRETS = {
    "property": lambda value: kafka().replace(EAST, f"{EAST}, properties: {{sasl.password: '{value}'}}"),
    "spark": lambda value: kafka() + f"engine: {{spark-conf: {{spark.authenticate.secret: '{value}'}}}}\n",
    "store": lambda value: (
        f"stores: {{s: {{type: azure, account: a, container: c, account-key: '{value}'}}}}\n{kafka()}"
    ),
}


@pytest.mark.parametrize("where", list(SECRETS))
@pytest.mark.parametrize("value", DEFAULTS)
def test_a_default_of_a_secret_is_one_in_clear(where: str, value: str) -> None:
    lines = messages(SECRETS[where](value), P="set")
    name = "NONE" if "NONE" in value else "P"
    refused = f"a secret may have no default: it would be in the file (write ${{{name}}}, and set {name})"
    assert [line for line in lines if line.endswith(refused)], lines
    assert PASSWORD not in "\n".join(lines)


@pytest.mark.parametrize("where", list(SECRETS))
@pytest.mark.parametrize("value", ["${P}", "user:${P}"])
@pytest.mark.parametrize("held", ["", " ", "\n"])
def test_a_secret_may_not_be_empty(where: str, value: str, held: str) -> None:
    lines = messages(SECRETS[where](value), P=held)
    assert [line for line in lines if line.endswith("the value of ${P} is empty (a secret may not be empty)")], lines


def test_a_secrets_file_must_be_absolute() -> None:
    assert read("sasl.password: {file: here}")[1] == [
        'c.yaml:1: ["sasl.password"]: the file of a secret must be an absolute path'
    ]


def test_a_secret_never_shows() -> None:
    secret = Secret(PASSWORD)
    assert PASSWORD not in f"{secret} {secret!r} {[secret]}"
    assert pickle.loads(pickle.dumps(secret)).reveal() == PASSWORD


def test_no_message_of_a_refused_file_holds_what_a_variable_held() -> None:
    text = kafka().replace(
        EAST,
        f"{EAST}, properties: {{sasl.password: '${{P}}', fetch.max.bytes: '${{P}}', nonsense: '${{P}}', x: '${{P}}'}}",
    )
    text += "engine: {lanes: '${P}', lease: '${P}', memory: '${P}', unknown: '${P}'}\n"
    text += "service: {metrics: '${P}', heartbeat: '${P}'}\non-park: '${P}'\n"
    lines = messages(text, P=PASSWORD)
    assert len(lines) == 11
    assert PASSWORD not in "\n".join(lines)


def test_no_traceback_of_a_refused_file_holds_a_secret() -> None:
    text = kafka().replace(EAST, f"{EAST}, properties: {{sasl.password: '${{P}}', ssl.key.password: {PASSWORD}}}")
    with pytest.raises(ConfigurationErrors) as caught:
        load(text, P=PASSWORD)
    errors = caught.value
    assert PASSWORD not in "".join(traceback.format_exception(errors)) + repr(errors) + repr(errors.problems)
    assert pickle.loads(pickle.dumps(errors)).problems == errors.problems
