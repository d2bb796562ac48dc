import subprocess
import sys
from pathlib import Path

import pytest

from mirrorlake.pipeline.daemon import WorkerMain, ending_quietly, leave_out_archives, preload


def install(folder: Path, *packages: str) -> str:
    for package in packages:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    return str(folder)


def test_archives_of_an_installed_pyspark_are_left_out(tmp_path: Path) -> None:
    site = install(tmp_path / "site", "pyspark", "py4j")
    zipped, jar = f"{site}/pyspark/python/lib/pyspark.zip", f"{site}/pyspark/jars/spark-core.jar"
    assert leave_out_archives(["/files", zipped, jar, "/python.zip", site]) == ["/files", "/python.zip", site]


def test_archives_of_another_pyspark_stay(tmp_path: Path) -> None:
    site = install(tmp_path / "site", "pyspark", "py4j")
    path = ["/opt/spark/python/lib/pyspark.zip", site]
    assert leave_out_archives(path) == path


def test_archives_stay_where_py4j_is_in_them_alone(tmp_path: Path) -> None:
    site = install(tmp_path / "site", "pyspark")
    path = [f"{site}/pyspark/python/lib/pyspark.zip", site]
    assert leave_out_archives(path) == path


def test_preloading_imports_modules_and_calls_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "preloaded_module.py").write_text("calls = []\ndef warm():\n    calls.append('warm')\n")
    monkeypatch.syspath_prepend(tmp_path)
    preload(["preloaded_module:warm"])
    assert sys.modules.pop("preloaded_module").calls == ["warm"]


def test_a_preload_that_fails_is_told_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preloaded_module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    preload(["no_such_module", "preloaded_module:no_such_function", "preloaded_module"])
    assert sys.modules.pop("preloaded_module", None) is not None
    told = capsys.readouterr().err
    assert "preloading no_such_module failed" in told
    assert "preloading preloaded_module:no_such_function failed" in told


def test_pyarrow_goes_without_pandas_in_a_worker() -> None:
    program = (
        "import sys; from mirrorlake.pipeline.daemon import WithoutPandas; sys.meta_path.insert(0, WithoutPandas())\n"
        "import pyarrow; table = pyarrow.table({'key': [b'k', None]})\n"
        "print(table.num_rows, 'pandas' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["2", "False"]


def read_by(worker: WorkerMain, content: bytes, folder: Path) -> None:
    (folder / "in").write_bytes(content)
    with (folder / "in").open("rb") as infile, (folder / "out").open("wb") as outfile:
        worker(infile, outfile)


def test_a_worker_that_the_jvm_has_let_go_ends_without_a_word(tmp_path: Path) -> None:
    read: list[bytes] = []
    with pytest.raises(SystemExit) as ended:
        read_by(ending_quietly(lambda infile, _: read.append(infile.read())), b"", tmp_path)
    assert ended.value.code == 1
    assert read == []


def test_a_worker_reads_the_whole_of_a_task_that_comes(tmp_path: Path) -> None:
    read: list[bytes] = []
    read_by(ending_quietly(lambda infile, _: read.append(infile.read())), b"a task", tmp_path)
    assert read == [b"a task"]
