import json
from pathlib import Path

import pytest

from mirrorlake.cli.configuration.schema import config_schema
from mirrorlake.cli.validate import validate
from mirrorlake.config.json_schema import configuration_schema_text
from mirrorlake.config.loading import FILE_BYTES_MAX
from unit.config.config_texts import kafka, native, v3


def test_a_good_file_is_said_to_be_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        native("""
            - {name: a, source: {cluster: east, topics: [x]}, destinations: [{type: archive, store: lake}]}
            - {name: b, source: {cluster: east, topics: [x]}, destinations: [{type: kafka, cluster: west}]}
            """)
    )
    assert validate(file, {}) == 0
    assert capsys.readouterr() == (
        "OK: 2 mirror(s), destination type = filesystem, kafka\n"
        "  a: x of cluster east → archive {topic} on lake\n"
        "  b: x of cluster east → topic {topic} on west\n",
        "",
    )


def test_what_a_file_means_and_what_is_wrong_with_one_is_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(
        native("""
            - name: a
              enabled: false
              source: {cluster: east, topics: [x, "/y.*/"], exclude: ["/.*-tmp/"], partitions: [2, 0]}
              destinations: [{type: kafka, cluster: west, topic: "copy-of-{topic}"}]
            """)
    )
    bad.write_text(kafka(destination=", topik: x"))
    assert validate(good, {}, as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {
        "ok": True,
        "file": str(good),
        "form": "native",
        "destination_types": ["kafka"],
        "mirrors": [
            {
                "name": "a",
                "enabled": False,
                "source": {
                    "cluster": "east",
                    "topics": ["x", "/y.*/"],
                    "exclude": ["/.*-tmp/"],
                    "partitions": [0, 2],
                },
                "destinations": [{"name": "west", "type": "kafka", "to": "copy-of-{topic}"}],
            }
        ],
        "problems": [],
    }
    assert validate(bad, {}, as_json=True) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem == {
        "file": str(bad),
        "line": 10,
        "column": problem["column"],
        "field": "mirrors[0].destinations[0].topik",
        "message": "is not a known field",
        "hint": "did you mean `topic`?",
    }


def test_clusters_and_stores_that_are_not_there_are_said_beside_whatever_else_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        native("""
            - name: a
              on-recreate: sometimes
              source: {cluster: esat, topics: 7}
              destinations:
                - {type: kafka, cluster: wset, topik: x}
                - {type: archive, store: laek, format: csv}
            """)
    )
    assert validate(file, {}) == 1
    said = capsys.readouterr().err
    for words in ("on-recreate", "topics", "topik", "format"):
        assert words in said
    for name in ("cluster `esat`", "cluster `wset`", "store `laek`"):
        assert said.count(f"there is no {name}") == 1, said


def test_a_file_of_mirror_v3_without_mirrors_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(v3("{type: kafka, bootstrap-servers: w}", "[]"))
    assert validate(file, {}) == 0
    assert capsys.readouterr() == ("OK: 0 mirror(s), destination type = kafka\n", "")


def test_a_bad_file_gives_one_line_per_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(kafka(destination=", topik: x") + "on-park: never\n")
    assert validate(file, {}) == 1
    assert capsys.readouterr() == (
        "",
        f"{file}:10: mirrors[0].destinations[0].topik: is not a known field (did you mean `topic`?)\n"
        f"{file}:11: on-park: expected continue or exit, found `never`\n",
    )


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.yaml"
    assert validate(file, {}) == 1
    said = capsys.readouterr().err
    assert (
        said == f"{file}: cannot be read: No such file or directory (is its path right, and may this user read it?)\n"
    )


def test_a_folder_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(tmp_path, {}) == 1
    said = capsys.readouterr().err
    assert said == f"{tmp_path}: cannot be read: Is a directory (is its path right, and may this user read it?)\n"


def test_a_huge_file_is_refused_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    assert validate(file, {}) == 1
    assert capsys.readouterr().err == f"{file}: is larger than 4194304 bytes (is it a configuration?)\n"


def test_validate_creates_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    root = tmp_path / "lake"
    file.write_text(
        native(
            "- {name: a, source: {cluster: east, topics: [x]}, destinations: [{type: archive, store: lake}]}"
        ).replace("/lake", str(root))
    )
    assert validate(file, {}) == 0
    assert not root.exists()


def test_config_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert config_schema() == 0
    assert capsys.readouterr() == (configuration_schema_text(), "")
