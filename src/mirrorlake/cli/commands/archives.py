"""``archive ls``, ``check``, ``merge``, ``erase``, ``retain``, ``snapshot`` and ``diff``."""

from pathlib import Path
from typing import Annotated

import typer

from mirrorlake.cli.applications import archive_app
from mirrorlake.cli.options import (
    ArchiveConfig,
    ArchiveRoot,
    CheckLevel,
    ConfigPath,
    DryRun,
    Format,
    LogFormat,
    Mirrors,
    OutputFormat,
    Partitions,
    Topics,
    Verbose,
    chosen,
    one_of,
    one_place,
    words,
)
from mirrorlake.page_compression import Compression


@archive_app.command("ls", epilog="Example: `mirrorlake archive ls -c mirror.yaml --topic orders --segments`")
def archive_ls(
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    segments: Annotated[
        bool, typer.Option("--segments", help="A row per file instead of one per partition.", metavar="")
    ] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """List archived partitions: offsets, records, gaps, bytes, times. Exit code 1 if something is wrong with one."""
    from mirrorlake.cli.archive import Where, ls

    config = one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic or (), partitions=partition or ())
    raise typer.Exit(ls(where, segments=segments, as_json=output is OutputFormat.JSON))


@archive_app.command("check", epilog="Example: `mirrorlake archive check --root /backups/kafka --level checksums`")
def archive_check(
    config: ArchiveConfig = None,
    root: ArchiveRoot = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    level: Annotated[
        CheckLevel,
        typer.Option(
            "--level",
            help="Names only, or every file against its own checksum too.",
            parser=one_of(CheckLevel),
            metavar=words(CheckLevel),
        ),
    ] = CheckLevel.NAMES,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Check that archives are whole, and name everything that is wrong; `verify` compares with the source.

    Exit codes: 0 all are sound, 1 one is not.
    """
    from mirrorlake.cli.archive import Where, check

    config = one_place(config, root, mirror)
    where = Where(config=config, root=root, mirrors=mirror or (), topics=topic or (), partitions=partition or ())
    raise typer.Exit(check(where, level=level.value, as_json=output is OutputFormat.JSON))


@archive_app.command("merge", epilog="Example: `mirrorlake archive merge -c mirror.yaml --topic orders --dry-run`")
def archive_merge(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    compression: Annotated[
        Compression | None,
        typer.Option(
            "--compression",
            help="Of what is made, in place of the one that the configuration names; Parquet only.",
            parser=one_of(Compression),
            metavar=words(Compression),
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Make few large segments of many small ones, as `merge` of each archive destination says.

    Safe beside a running mirror, readers and other merges. Exit codes: 0 done or nothing to do, 1 something failed.
    """
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_keeping import merge

    where = Where(
        config=chosen(config), root=None, mirrors=mirror or (), topics=topic or (), partitions=partition or ()
    )
    as_json = output is OutputFormat.JSON
    raise typer.Exit(merge(where, is_dry=dry_run, as_json=as_json, compression=compression, engine=context.obj))


@archive_app.command(
    "erase", epilog="Example: `mirrorlake archive erase -c mirror.yaml --topic customers --key c-4711 --dry-run`"
)
def archive_erase(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="Key of the records: text, `base64:…`, `hex:…`, or `null:` for the null key; may be repeated.",
            metavar="KEY",
        ),
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option("--keys-file", help="File with one such key a line.", metavar="FILE")
    ] = None,
    dry_run: DryRun = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Take all records of some keys out of archived topics, to the last byte, and leave all others as they are.

    Snapshots too. Safe beside a running mirror, readers and merges. Never the newest segment of an archive of every
    record: what cannot be erased yet is named. Exit codes: 0 all that was found is erased, or nothing was found,
    1 something failed, 3 something has to wait.
    """
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_erase import erase
    from mirrorlake.cli.key_texts import parse_key, read_keys

    if not topic:
        raise typer.BadParameter("name the topics", param_hint="--topic")
    if not key and keys_file is None:
        raise typer.BadParameter("name at least one key, or a file of them", param_hint="--key or --keys-file")
    keys = [parse_key(each) for each in key or ()]
    if keys_file is not None:
        keys += read_keys(keys_file)
    where = Where(config=chosen(config), root=None, mirrors=mirror or (), topics=topic, partitions=partition or ())
    raise typer.Exit(erase(where, keys, is_dry=dry_run, as_json=output is OutputFormat.JSON, engine=context.obj))


@archive_app.command("retain", epilog="Example: `mirrorlake archive retain -c mirror.yaml --dry-run`")
def archive_retain(
    config: ConfigPath = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    dry_run: DryRun = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Delete the oldest segments of topics that hold more than `retain` of their archive destination lets them.

    Never the newest segment of a partition. Exit codes: 0 done or nothing to do, 1 something failed.
    """
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_keeping import retain

    where = Where(config=chosen(config), root=None, mirrors=mirror or (), topics=topic or ())
    raise typer.Exit(retain(where, is_dry=dry_run, as_json=output is OutputFormat.JSON))


@archive_app.command(
    "snapshot",
    epilog="Example: `mirrorlake archive snapshot -c mirror.yaml --topic orders --until 2026-11-20T12:00:00Z`",
)
def archive_snapshot(
    context: typer.Context,
    config: ConfigPath = None,
    mirror: Mirrors = None,
    topic: Topics = None,
    partition: Partitions = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Where to: STORE:FOLDER, one of the file's `stores`; {topic} is the archive's folder. "
            "Default: {topic}.snapshot beside it.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help="End each partition before its first record later than that, such as 2026-11-20T12:00:00.000Z.",
            metavar="TIME",
        ),
    ] = None,
    until_offset: Annotated[
        int | None, typer.Option("--until-offset", help="End each partition below this offset.", show_default=False)
    ] = None,
    keep_tombstones: Annotated[
        bool, typer.Option("--keep-tombstones", help="Keep keys whose latest record has no value.", metavar="")
    ] = False,
    dry_run: DryRun = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Make a snapshot of each partition: the latest record of every key, up to an offset or a time.

    Exit codes: 0 done or nothing to do, 1 something failed.
    """
    if until_offset is not None and until_offset < 1:
        raise typer.BadParameter("is above 0: records below it are taken", param_hint="--until-offset")
    from mirrorlake.cli.archive import Where
    from mirrorlake.cli.archive_snapshot import Asked, snapshot

    where = Where(
        config=chosen(config), root=None, mirrors=mirror or (), topics=topic or (), partitions=partition or ()
    )
    asked = Asked(to=to, until=until, until_offset=until_offset, keeps_tombstones=keep_tombstones)
    raise typer.Exit(snapshot(where, asked, is_dry=dry_run, as_json=output is OutputFormat.JSON, engine=context.obj))


@archive_app.command(
    "diff",
    epilog="Example: `mirrorlake archive diff -c mirror.yaml lake:orders east:orders`",
)
def archive_diff(
    context: typer.Context,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="STORE:FOLDER, CLUSTER:TOPIC, a store or cluster alone for all topics, or the path of an archive's "
            "root.",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other place, written likewise.")],
    config: ConfigPath = None,
    topic: Topics = None,
    partition: Partitions = None,
    from_offset: Annotated[
        int | None,
        typer.Option("--from-offset", help="From this offset on; needs --partition.", min=0, show_default=False),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", help="To this offset, inclusive; needs --partition.", min=0, show_default=False),
    ] = None,
    ignore_times: Annotated[
        bool, typer.Option("--ignore-times", help="Records may have other times.", metavar="")
    ] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Compare two archives, or an archive and a cluster: same records at the same offsets, or the first that differs.

    Reads only. Exit codes: 0 all is equal, or explained by retention, erasure or the log cleaner, 1 something differs
    or could not be compared.
    """
    from mirrorlake.archive.names import LAST_OFFSET_MAX
    from mirrorlake.cli.archive_diff import DiffOptions, diff

    if (from_offset is not None or to_offset is not None) and not partition:
        raise typer.BadParameter("offsets are of one partition: give --partition", param_hint="--from-offset")
    if from_offset is not None and from_offset > LAST_OFFSET_MAX:
        raise typer.BadParameter("is no offset", param_hint="--from-offset")
    if to_offset is not None and not (from_offset or 0) <= to_offset <= LAST_OFFSET_MAX:
        raise typer.BadParameter("lies below --from-offset, or is no offset", param_hint="--to-offset")
    options = DiffOptions(
        a=a,
        b=b,
        topics=topic or (),
        partitions=partition or (),
        from_offset=from_offset,
        to_offset=to_offset,
        ignores_times=ignore_times,
    )
    raise typer.Exit(diff(chosen(config), options, as_json=output is OutputFormat.JSON, engine=context.obj))
