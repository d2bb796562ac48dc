"""Reads a configuration file: both forms in, one resolved value out, or every problem at once."""

import os
from collections.abc import Mapping
from pathlib import Path

from mirrorlake.config.availability import refuse_unavailable
from mirrorlake.config.checking import check, note_unknown
from mirrorlake.config.common_form import CommonForm, EngineForm, ServiceForm
from mirrorlake.config.cross_checks import check_mirror_names, check_mirrors, check_slots
from mirrorlake.config.document import Document, Tree, read_document
from mirrorlake.config.environment import Environment, read_environment
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.mirror_v3_form import MirrorV3Form
from mirrorlake.config.native_form import NativeForm
from mirrorlake.config.problems import ConfigurationErrors, Place, Problem, ProblemList
from mirrorlake.config.process_settings import Engine, ListenAddress, OnPark, Service
from mirrorlake.config.reading import found
from mirrorlake.config.resolve.mirror_v3 import resolve_mirror_v3
from mirrorlake.config.resolve.native import resolve_native
from mirrorlake.config.resolve.parts import Parts
from mirrorlake.config.resolve.sharing import lay_over
from mirrorlake.config.resolved import Configuration, Form
from mirrorlake.config.spark.settings import SparkSettings, check_engine, read_spark_conf
from mirrorlake.config.spark.submitted import lay_under

FILE_BYTES_MAX = 4 * 1024**2
"""Far above any real file; a data file given by mistake is refused at once."""
V3_METRICS_PORT = 9090
V3_HEARTBEAT_SECONDS = 30
TO_READ = "is its path right, and may this user read it?"
"""The remedy where a file cannot be read."""


def load_configuration(
    path: Path, environ: Mapping[str, str] | None = None, *, submitted: Mapping[str, str] | None = None
) -> Configuration:
    """Returns the configuration in a file. Touches nothing else: no network, no folder.

    Args:
        path: the file.
        environ: the environment variables; None for those of this process.
        submitted: the settings of Spark that `spark-submit` has; None where it did not start this process.

    Raises:
        ConfigurationErrors: everything that is wrong with the file and with environment variables.
    """
    file = str(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        place = Place(file=file, line=0, column=0, field="")
        reason = f"cannot be read: {error.strerror or error}"
        raise ConfigurationErrors([Problem(place=place, message=reason, hint=TO_READ)]) from None
    environ = os.environ if environ is None else environ
    return parse_configuration(content, file=file, environ=environ, submitted=submitted)


def parse_configuration(
    content: bytes, *, file: str, environ: Mapping[str, str], submitted: Mapping[str, str] | None = None
) -> Configuration:
    """Returns the configuration in the bytes of a file; ``file`` is its name in messages.

    For the rest see `load_configuration`.

    Raises:
        ConfigurationErrors: everything that is wrong with the file and with environment variables.
    """
    problems = ProblemList()
    environment = _environment(environ, problems)
    if len(content) > FILE_BYTES_MAX:
        place = Place(file=file, line=0, column=0, field="")
        problems.add(place, f"is larger than {FILE_BYTES_MAX} bytes", "is it a configuration?")
        problems.raise_if_any()
    document = read_document(content, file=file, environ=environ, problems=problems)
    if not isinstance(document.tree, dict):
        if not problems.found or document.tree is not None:
            _note_no_mapping(document)
        raise ConfigurationErrors(problems.found)
    _refuse_later_mirror_v3(document)
    configuration = _resolve(document, environment, submitted)
    problems.raise_if_any()
    return configuration


def parse_places(content: bytes, *, file: str, environ: Mapping[str, str]) -> Parts:
    """Returns the clusters and stores in bytes of the native form, which need not hold any mirror.

    Raises:
        ConfigurationErrors: everything that is wrong with them.
    """
    problems = ProblemList()
    document = read_document(content, file=file, environ=environ, problems=problems)
    problems.raise_if_any()
    parts = resolve_native(document)
    problems.found = [problem for problem in problems.found if problem.place.field != "mirrors"]
    problems.raise_if_any()
    return parts


def _environment(environ: Mapping[str, str], problems: ProblemList) -> Environment:
    try:
        return read_environment(environ)
    except ConfigurationErrors as errors:
        problems.found.extend(errors.problems)
        return Environment()


def _note_no_mapping(document: Document) -> None:
    if isinstance(document.tree, UnsetText):
        return
    if document.tree is None:
        document.note((), "holds no configuration", "`mirrorlake config schema` lists all settings")
    else:
        document.note((), f"expected a mapping, found {found(document.tree)}")


def _refuse_later_mirror_v3(document: Document) -> None:
    """Ends with one problem where the file is of a mirror-v3 whose mirrors have ``destinations`` of their own.

    Raises:
        ConfigurationErrors: it is; what follows from reading it as the older form would only hide that.
    """
    assert isinstance(document.tree, dict)
    mirrors = document.tree.get("mirrors")
    if "destination" in document.tree or form_of(document.tree) is Form.NATIVE or not isinstance(mirrors, list):
        return
    for index, mirror in enumerate(mirrors):
        if isinstance(mirror, dict) and "partition" in mirror and "destinations" in mirror:
            document.note(
                ("mirrors", index, "destinations"),
                "is of a later mirror-v3, whose files are not read here",
                "write one `destination` at the root, or `clusters` and the native form",
            )
            raise ConfigurationErrors(document.problems.found)


def _resolve(document: Document, environment: Environment, submitted: Mapping[str, str] | None) -> Configuration:
    assert isinstance(document.tree, dict)
    form = form_of(document.tree)
    if form is Form.NATIVE:
        lay_over(document, environment.overlay)
    elif environment.overlay:
        document.note((), "is of the mirror-v3 form, which has no overlays", "unset MIRRORLAKE_OVERLAY")
    note_unknown(NativeForm if form is Form.NATIVE else MirrorV3Form, document)
    read = resolve_native if form is Form.NATIVE else resolve_mirror_v3
    parts = read(document)
    common = _common(document)
    spark, master = read_spark_conf(_spark_conf(document), document), common.engine.master
    if submitted is not None:
        master = lay_under(submitted, master, spark, document)
    check_engine(master, common.engine.lanes, spark, document)
    check_mirror_names(parts.names, document)
    check_mirrors(parts.mirrors, document.problems)
    check_slots(parts.mirrors, common.engine.batch_slots, document.problems)
    refuse_unavailable(document)
    return Configuration(
        file=document.file,
        form=form,
        clusters=tuple(parts.clusters),
        stores=tuple(parts.stores),
        registries=tuple(parts.registries),
        mirrors=tuple(parts.mirrors),
        destination_types=tuple(dict.fromkeys(parts.destination_types)),
        engine=_engine(common.engine, spark, master),
        service=_service(form, common.service, environment),
        on_park=common.on_park or (OnPark.CONTINUE if form is Form.NATIVE else OnPark.EXIT),
    )


def form_of(tree: Mapping[str, Tree]) -> Form:
    """Returns the form a file is written in.

    A ``destination`` at the root makes it mirror-v3's; so do mirrors written that way in a file without
    clusters, so that a forgotten or misspelt ``destination`` is what gets reported.
    """
    if "destination" in tree:
        return Form.MIRROR_V3
    mirrors = tree.get("mirrors")
    is_v3_mirror = isinstance(mirrors, list) and any(isinstance(m, dict) and "partition" in m for m in mirrors)
    return Form.MIRROR_V3 if is_v3_mirror and "clusters" not in tree else Form.NATIVE


def _common(document: Document) -> CommonForm:
    """Returns what stands at the root in both forms; an unreadable part is noted and left at default."""
    assert isinstance(document.tree, dict)
    sound = CommonForm()
    for field in CommonForm.model_fields.values():
        name = str(field.alias)
        if name in document.tree:
            part = check(CommonForm, {name: document.tree[name]}, (), document)
            read = {set_name: getattr(part, set_name) for set_name in part.model_fields_set} if part else {}
            sound = sound.model_copy(update=read)
    return sound


def _spark_conf(document: Document) -> Mapping[str, Tree]:
    """Returns ``engine.spark-conf`` as it stands in the file, which still knows what came from the environment."""
    assert isinstance(document.tree, dict)
    engine = document.tree.get("engine")
    given = engine.get("spark-conf") if isinstance(engine, dict) else None
    return given if isinstance(given, dict) else {}


def _engine(form: EngineForm, spark: SparkSettings, master: str | None) -> Engine:
    """Returns what the engine is told; the fields of the form have the same names."""
    read = {"lanes": form.lanes or available_cores(), "spark_conf": spark.plain, "spark_secrets": spark.secrets}
    return Engine(**{**dict(form), **read, "master": master})


def available_cores() -> int:
    """Returns the cores this process may use, which a container may hold below those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _service(form: Form, given: ServiceForm, environment: Environment) -> Service:
    metrics = given.metrics
    heartbeat_seconds = given.heartbeat
    if form is Form.MIRROR_V3 and "metrics" not in given.model_fields_set:
        port = environment.v3_metrics_port
        port = V3_METRICS_PORT if port is None else port
        metrics = ListenAddress(host="0.0.0.0", port=port) if port else None  # as there
    if form is Form.MIRROR_V3 and "heartbeat" not in given.model_fields_set:
        seconds = environment.v3_heartbeat_seconds
        heartbeat_seconds = float(V3_HEARTBEAT_SECONDS if seconds is None else seconds) or None
    if environment.metrics is not None:
        metrics = environment.metrics.listen
    if environment.heartbeat is not None:
        heartbeat_seconds = environment.heartbeat.seconds
    return Service(metrics=metrics, control=given.control, heartbeat_seconds=heartbeat_seconds)
