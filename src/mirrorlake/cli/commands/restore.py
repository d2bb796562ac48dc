"""``restore``."""

from typing import Annotated

import typer

from mirrorlake.cli.applications import app
from mirrorlake.cli.options import (
    ConfigPath,
    Format,
    Layout,
    LogFormat,
    OutputFormat,
    RestoredGaps,
    RestoredOffsets,
    Verbose,
    check_can_ask,
    chosen,
    one_of,
    words,
)
from mirrorlake.foreign_layout import BeginsAt, EmptyField, ForeignLayout, KafkaReplicatorLayout


def _foreign_layout(
    layout: Layout | None, region: str, begins_at: BeginsAt, null_for_empty: list[EmptyField]
) -> ForeignLayout | None:
    if layout is None:
        given = {
            "--region": region,
            "--null-for-empty": null_for_empty,
            "--begins-at": begins_at is not BeginsAt.OFFSET_0,
        }
        for option, value in given.items():
            if value:
                raise typer.BadParameter("has no meaning without --layout", param_hint=option)
        return None
    if not region:
        raise typer.BadParameter(f"is needed with --layout {layout}", param_hint="--region")
    return KafkaReplicatorLayout(region=region, begins_at=begins_at, null_for_empty=frozenset(null_for_empty))


@app.command(
    epilog="Example: `mirrorlake restore -c mirror.yaml --store lake --topics 'orders,/payments-.*/' --to west "
    "--until 2026-11-20T12:00:00.000Z`"
)
def restore(
    context: typer.Context,
    store: Annotated[str, typer.Option("--store", help="The archive: one of the file's `stores`.")],
    topics: Annotated[str, typer.Option("--topics", help="Topics and /expressions/, separated by commas.")],
    to: Annotated[str, typer.Option("--to", help="Where to: one of the file's `clusters`.")],
    config: ConfigPath = None,
    rename: Annotated[str, typer.Option("--rename", help="Names of the restored topics.")] = "{topic}",
    from_time: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Begin each partition at its first record of that time or later, such as 2026-11-20T12:00:00.000Z.",
            metavar="TIME",
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
    offsets: Annotated[
        RestoredOffsets,
        typer.Option(
            "--offsets",
            help="Every record at its own offset again, or at offsets that the topic gives it.",
            parser=one_of(RestoredOffsets),
            metavar=words(RestoredOffsets),
        ),
    ] = RestoredOffsets.PRESERVE,
    gap_fill: Annotated[
        RestoredGaps | None,
        typer.Option(
            "--gap-fill",
            help="How offsets without a record are filled, as in the configuration. Default: markers.",
            parser=one_of(RestoredGaps),
            metavar=words(RestoredGaps),
            show_default=False,
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.", show_default=False)
    ] = None,
    generation: Annotated[
        int | None,
        typer.Option("--generation", help="Of topics that were recreated, 1 is the first.", min=1, show_default=False),
    ] = None,
    layout: Annotated[
        Layout | None,
        typer.Option(
            "--layout",
            help="Of another program's archive. Default: mirrorlake's own, and mirror-v3's.",
            parser=one_of(Layout),
            metavar=words(Layout),
            show_default=False,
        ),
    ] = None,
    region: Annotated[
        str,
        typer.Option(
            "--region",
            help="With --layout: the region whose records these are, a folder of the store that holds the topics.",
            show_default=False,
        ),
    ] = "",
    begins_at: Annotated[
        BeginsAt,
        typer.Option(
            "--begins-at",
            help="With --layout: wait for what is missing below the first segment, or begin there.",
            parser=one_of(BeginsAt),
            metavar=words(BeginsAt),
        ),
    ] = BeginsAt.OFFSET_0,
    null_for_empty: Annotated[
        list[EmptyField] | None,
        typer.Option(
            "--null-for-empty",
            help="With --layout: a field that was null wherever it is empty; may be repeated.",
            parser=one_of(EmptyField),
            metavar=words(EmptyField),
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="Of the restore, which continues under it. Default: restore-STORE.")
    ] = "",
    groups: Annotated[bool, typer.Option("--groups", help="Bring back consumer groups, too.")] = False,
    force_groups: Annotated[
        bool,
        typer.Option(
            "--force-groups", help="With --groups: also those that stand elsewhere at the destination already."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Format = OutputFormat.TABLE,
    _log: LogFormat = None,
    _verbose: Verbose = False,
) -> None:
    """Bring topics of an archive back to a cluster, and prove that every record is there.

    Shows the plan and asks. The same command continues a restore that was interrupted. Exit codes: 0 restored and
    equal, 1 not, or groups could not be read, 3 some partitions are parked or some groups could not be placed, 4
    another process restores.
    """
    if force_groups and not groups:
        raise typer.BadParameter("has no meaning without --groups", param_hint="--force-groups")
    from mirrorlake.cli.restore import GroupOptions
    from mirrorlake.cli.restore import restore as verb
    from mirrorlake.topics.restoring import RestoreOptions, restore_configuration

    options = RestoreOptions(
        store=store,
        topics=topics,
        to=to,
        rename=rename,
        from_time=from_time,
        until=until,
        offsets=offsets.value,
        gap_fill=None if gap_fill is None else gap_fill.value,
        partitions=tuple(sorted(set(partition))) if partition else None,
        generation=generation,
        layout=_foreign_layout(layout, region, begins_at, null_for_empty or []),
        name=name,
    )
    check_can_ask(
        config,
        is_answered=yes or dry_run,
        otherwise="--dry-run",
        check=lambda loaded: restore_configuration(loaded, options),
    )
    as_json = output is OutputFormat.JSON
    wanted = GroupOptions(is_forced=force_groups) if groups else None
    code = verb(
        chosen(config), options, is_dry=dry_run, asks=not yes, as_json=as_json, groups=wanted, engine=context.obj
    )
    raise typer.Exit(code)
