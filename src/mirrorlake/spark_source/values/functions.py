"""The functions that a query may call beside Spark's own: they read schema ids, and decode values by archived schemas.

Spark's workers are given all schemas of the registry, so that no task asks a store.
"""

from typing import Any

from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.schemas.mirrored import RegistryInArchive
from mirrorlake.errors import ConfigurationError
from mirrorlake.spark_source.values.decoding import ValueDecoder, schema_guid, schema_id
from mirrorlake.stores.opening import open_store


def register_functions(spark: Any, config: Configuration, registry: str) -> None:
    """Makes what decodes known to a session, by the names of `docs/spark.md`. Reads all schemas of the registry.

    Raises:
        ConfigurationError: the file has no such registry, or it is none in an archive; or nothing of it is archived.
        SchemaAlteredError: whose schemas a folder holds cannot be read.
        MirrorlakeError: the store could not be read.
    """
    decoder = decoder_of(config, registry)
    spark.udf.register("schema_id", schema_id, "int")
    spark.udf.register("schema_guid", schema_guid, "string")
    spark.udf.register("decoded", decoder.decode, "string")
    spark.udf.register("try_decoded", decoder.try_decode, "string")


def decoder_of(config: Configuration, registry: str) -> ValueDecoder:
    """Returns what decodes by the schemas of a registry of the file; raises as `register_functions`."""
    found = next((each for each in config.registries if each.name == registry), None)
    if found is None:
        names = ", ".join(each.name for each in config.registries) or "none"
        raise ConfigurationError(f"{config.file} has no registry `{registry}`", hint=f"it has: {names}")
    if not isinstance(found, RegistryInArchive):
        raise ConfigurationError(
            f"registry `{registry}` is not in an archive, and values are decoded by archived schemas",
            hint="`registries: {…: {store: …}}` names what an archive holds of a registry",
        )
    schemas = ArchivedSchemas(open_store(found.store), found.registry)
    if not schemas.look():
        raise ConfigurationError(
            f"{found.store.where('')} holds no schemas of a registry {found.registry}",
            hint="a mirror with an archive destination and `schemas: {from: …}` archives them",
        )
    versions, unknown = schemas.versions()
    return ValueDecoder.of(registry, versions, unknown={id_: str(error) for id_, error in unknown.items()})
