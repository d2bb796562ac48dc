"""The command and its groups of verbs."""

from mirrorlake.cli.typer_app import App

_CONTEXT = {"help_option_names": ["-h", "--help"]}

app = App(
    name="mirrorlake",
    context_settings=_CONTEXT,
    help="Exactly-once Kafka mirroring: same offsets at the other cluster, small tidy archives, from outside the "
    "broker.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Example: `mirrorlake validate -c mirror.yaml`, then `plan`, `run` and `status` with the same file.",
)
config_app = App(
    help="The configuration itself.",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    epilog="Example: `mirrorlake config schema`",
)
app.add_typer(config_app, name="config")
groups_app = App(
    context_settings=_CONTEXT,
    help="Consumer groups of a running mirror, taken along to its destination.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake groups plan -c mirror.yaml`",
)
app.add_typer(groups_app, name="groups")
topics_app = App(
    help="Destination topics: what differs from the source, what would be done, and doing it.",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    epilog="Example: `mirrorlake topics plan -c mirror.yaml`",
)
app.add_typer(topics_app, name="topics")
failover_app = App(
    context_settings=_CONTEXT,
    help="Everything of the sources to their copies once more, and what is not there.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake failover plan -c mirror.yaml`",
)
app.add_typer(failover_app, name="failover")
failback_app = App(
    context_settings=_CONTEXT,
    help="What the copies gained, back to where they were copied from.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake failback plan -c mirror.yaml`",
)
app.add_typer(failback_app, name="failback")
schemas_app = App(
    help="Subjects of schema registries: what differs between two, what would be done, and doing it.",
    context_settings=_CONTEXT,
    no_args_is_help=True,
    epilog="Example: `mirrorlake schemas plan -c mirror.yaml`",
)
app.add_typer(schemas_app, name="schemas")
archive_app = App(
    context_settings=_CONTEXT,
    help="See, check, compare and keep archives; only `diff` asks a cluster, and only one that is named.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake archive check -c mirror.yaml --level checksums`",
)
app.add_typer(archive_app, name="archive")
hold_app = App(
    context_settings=_CONTEXT,
    help="Keep parts of archives from being retired, for as long as it takes.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake archive hold ls -c mirror.yaml`",
)
archive_app.add_typer(hold_app, name="hold")
offsets_app = App(
    context_settings=_CONTEXT,
    help="See, keep and move positions: how far each partition is copied.",
    no_args_is_help=True,
    epilog="Example: `mirrorlake offsets export -c mirror.yaml --file positions.csv`",
)
app.add_typer(offsets_app, name="offsets")
