"""Schema registries, and how the schemas of a mirror's topics come from one to another."""

from dataclasses import dataclass, field

from mirrorlake.config.problems import Place
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A schema registry; nothing of it is looked at while loading."""

    settings: RegistrySettings
    place: Place = field(compare=False)

    @property
    def name(self) -> str:
        """Returns what the configuration calls it."""
        return self.settings.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryInArchive:
    """What an archive holds of a schema registry; subjects are restored from it.

    ``name`` is what the configuration calls it, ``registry`` what the configuration called it that archived it.
    """

    name: str
    store: StoreSettings
    registry: str
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredSchemas:
    """How the subjects of a mirror's topics come from one registry to another; ``key`` and ``value``: their names.

    ``destination`` is None where all destinations are archives: those hold the source's schemas themselves.

    ``passes_keys`` and ``passes_values`` say whether what names no schema is copied as it is, ``letters_of_keys`` and
    ``letters_of_values`` whether its record becomes a dead letter, instead of parking its partition. Dead letters go to
    ``letters_template``, with no placeholder but ``{topic}`` left; empty where there are none. A service looks at the
    registries every ``interval_seconds``.
    """

    source: Registry | RegistryInArchive
    destination: Registry | None
    rules: SubjectRules
    key: SubjectStrategy
    value: SubjectStrategy
    passes_keys: bool = False
    passes_values: bool = False
    letters_of_keys: bool = False
    letters_of_values: bool = False
    letters_template: str = ""
    interval_seconds: float = 30.0
    place: Place = field(compare=False)

    @property
    def there(self) -> Registry:
        """The destination's registry, for who is asked about a Kafka destination: those have one."""
        assert self.destination is not None, "a Kafka destination of a mirror with schemas has a registry"
        return self.destination

    @property
    def has_keys(self) -> bool:
        """True where keys have schemas."""
        return self.key is not SubjectStrategy.NONE

    @property
    def has_values(self) -> bool:
        """True where values have schemas."""
        return self.value is not SubjectStrategy.NONE

    def letters_topic(self, topic: str) -> str:
        """Returns where dead letters of a source topic go; empty where there are none."""
        return self.letters_template.replace("{topic}", topic)
