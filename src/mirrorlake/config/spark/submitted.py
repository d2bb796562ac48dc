"""Settings that `spark-submit` was given: they stand behind those of the file, and the same rules hold for them.

As Spark has it, what a program sets itself counts before the command line, and that before ``spark-defaults.conf``.
"""

from collections.abc import Iterator, Mapping

from mirrorlake.config.document import Document
from mirrorlake.config.problems import Place, ProblemList
from mirrorlake.config.spark.settings import (
    WHY_SWITCHED_ON,
    SparkSettings,
    as_kept,
    is_local,
    is_secret,
    refusal,
)
from mirrorlake.secret import Secret

SUBMIT = "spark-submit"
"""Stands in the place of the file in messages."""

_OF_THE_LAUNCHER = (
    "spark.app.",
    "spark.submit.",
    "spark.repl.",
    "spark.driver.cores",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
    "spark.pyspark.driver.python",
)
"""How settings begin that are for the JVM that `spark-submit` starts, which does nothing but wait for this process."""

_LEAVE_OUT = "leave it out of the command line, of the properties file and of spark-defaults.conf"


def lay_under(given: Mapping[str, str], master: str | None, read: SparkSettings, document: Document) -> str | None:
    """Adds to the file's settings those of `spark-submit` that the file does not have; returns the master to use.

    A local master is passed over: it is what `spark-submit` says where nobody chose one, and `engine.lanes` tells how
    many slots this machine has.

    Args:
        given: Spark's settings, as `spark-submit` knows them.
        master: that of the file, None where it names none.
        read: the file's settings; takes the others.
        document: takes what is wrong.
    """
    for name, value in given.items():
        if name == "spark.master" or name.startswith(_OF_THE_LAUNCHER):
            continue
        if (refused := refusal(name)) is not None:
            message, reason = refused
            _note(document.problems, name, message, f"{reason}; {_LEAVE_OUT}")
        elif is_secret(name):
            read.secrets.setdefault(name, Secret(value))
        elif (kept := as_kept(name, value)) is None:
            _note(document.problems, name, f"expected true, found `{value}`", WHY_SWITCHED_ON)
        else:
            read.plain.setdefault(name, kept)
    for name, message, hint in _wrong_with_submission(given):
        _note(document.problems, name, message, hint)
    return _master(given.get("spark.master"), master, document)


def _master(submitted: str | None, of_file: str | None, document: Document) -> str | None:
    if submitted is None or is_local(submitted) or submitted == of_file:
        return of_file
    if of_file is not None:
        document.note(
            ("engine", "master"), f"is `{of_file}`, and spark-submit has `{submitted}`", "leave one of them out"
        )
        return of_file
    return submitted


def _wrong_with_submission(given: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    if given.get("spark.submit.deployMode", "client") != "client":
        yield "spark.submit.deployMode", "expected client", "this process starts Spark itself: use --deploy-mode client"
    if given.get("spark.submit.pyFiles"):
        hint = "executors need mirrorlake installed, or an environment in --archives: see docs/cluster.md"
        yield "spark.submit.pyFiles", "--py-files cannot be used", hint


def _note(problems: ProblemList, name: str, message: str, hint: str) -> None:
    problems.add(Place(file=SUBMIT, line=0, column=0, field=name), message, hint)
