"""How the native form says that records go to one of several topics, and what that makes of a destination."""

from typing import Annotated, TypeVar

from pydantic import InstanceOf, WithJsonSchema

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination_form import SectionContext
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.document import Document
from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.reading import by, found, read_text, refuse, suggestion
from mirrorlake.config.section import Section, Shown, option
from mirrorlake.config.values.names import topic_flaw
from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.branch import Branch, parse_route
from mirrorlake.filters.projection import Expression

PARK, LEAVE_OUT = "park", "leave-out"

TOPICS_MAX = 100
"""How many topics a route may have: each is a destination of its own, which looks at every record."""

D = TypeVar("D", KafkaDestination, ArchiveDestination)


def read_route(value: object) -> Expression:
    """Reads an expression of Spark SQL that gives a topic's name."""
    text = read_text(value)
    try:
        return parse_route(text)
    except UnsupportedError as error:
        # What stands in a variable is not repeated.
        why = "" if isinstance(value, ExpandedText) else f": {error.message}"
        refuse(f"{found(value)} cannot tell a topic{why}", error.hint)


def read_route_topic(value: object) -> str:
    """Reads the name of a topic that records may go to."""
    topic = read_text(value)
    if flaw := topic_flaw(topic):
        refuse(f"{found(value)} cannot be a topic of a route", flaw)
    return topic


Route = Annotated[InstanceOf[Expression], by(read_route), WithJsonSchema({"type": "string"}), Shown("Spark SQL")]
RouteTopic = Annotated[str, by(read_route_topic), Shown("topic")]
Otherwise = Annotated[str, by(read_text), Shown("`park`, `leave-out` or one of `topics`")]


class RouteForm(Section):
    """Records go to the topic that an expression gives, each to one: a destination is made for each topic.

    With `offsets: map`, and to archives, where it is a folder. See [routes](filters.md#which-topic-it-goes-to-route).
    """

    to: Route = option(
        ...,
        "An expression in Spark SQL that gives one of `topics`, as a STRING. It looks at `key`, `value`, "
        "`headers['name']`, `timestamp`, `partition` and `offset` of the source's record, as `select` does.",
    )
    topics: list[RouteTopic] = option(..., "All topics that records may go to, at most 100.")
    otherwise: Otherwise = option(
        PARK,
        "Where a record goes whose expression is NULL or gives a topic that is not among them. `park`: nowhere, its "
        "partition stops before it. `leave-out`: nowhere, it is counted as `filtered`. Or one of `topics`.",
    )


def check_beside_route(form: Section, name: str, context: SectionContext) -> None:
    """Notes a name beside a route, which has its own."""
    if name in form.model_fields_set:
        context.note((name,), "has no meaning beside `route`", "leave it out: `topics` names them")


def routed(destination: D, form: RouteForm | None, path: FieldPath, document: Document) -> tuple[D, ...]:
    """Returns what a destination of the file is to the program: one for each topic of its route; itself without one.

    Args:
        destination: as it would be without a route.
        form: its route as it stands in the file.
        path: of the route.
        document: takes what is wrong.
    """
    if form is None:
        return (destination,)
    fallback, topics, parks = _fallback(form, path, document), _topics(form, path, document), form.otherwise == PARK
    return tuple(
        destination.of_route(
            Branch(to=form.to, topics=topics, topic=topic, fallback=fallback, parks=parks),
            document.place((*path, "topics", form.topics.index(topic))),
        )
        for topic in topics
    )


def _topics(form: RouteForm, path: FieldPath, document: Document) -> tuple[str, ...]:
    """Returns the topics, each once, after noting what is wrong with the list."""
    where = (*path, "topics")
    if not form.topics:
        document.note(where, "names no topic", "name all that records may go to")
    if len(form.topics) > TOPICS_MAX:
        hint = "make several mirrors of it, each with a `filter`"
        document.note(where, f"has {len(form.topics)} topics, and may have {TOPICS_MAX}", hint)
    for index, topic in enumerate(form.topics):
        if topic in form.topics[:index]:
            document.note((*where, index), f"`{topic}` is listed twice", "remove one of them")
    return tuple(dict.fromkeys(form.topics))


def _fallback(form: RouteForm, path: FieldPath, document: Document) -> str:
    """Returns the topic for records that no topic is named for, empty where there is none."""
    where, said = (*path, "otherwise"), form.otherwise
    if said in (PARK, LEAVE_OUT):
        if said in form.topics and "otherwise" in form.model_fields_set:
            hint = "give that topic another name"
            document.note(where, f"`{said}` is a word of `otherwise`, and one of `topics`", hint)
        return ""
    if said not in form.topics:
        hint = suggestion(said, [PARK, LEAVE_OUT, *form.topics]) or f"`{PARK}`, `{LEAVE_OUT}` or one of `topics`"
        document.note(where, f"`{said}` is not among `topics`", hint)
        return ""
    return said
