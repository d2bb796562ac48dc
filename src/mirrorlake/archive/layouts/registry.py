"""Which store shows which layout: one row each."""

from collections.abc import Callable, Mapping

from mirrorlake.archive.layouts.kafka_replicator import KafkaReplicatorStore
from mirrorlake.foreign_layout import ForeignLayout, KafkaReplicatorLayout
from mirrorlake.stores.object_store import ObjectStore

VIEWS: Mapping[type[ForeignLayout], Callable[[ObjectStore, ForeignLayout], ObjectStore]] = {
    KafkaReplicatorLayout: KafkaReplicatorStore,
}


def seen_as(layout: ForeignLayout | None, store: ObjectStore) -> ObjectStore:
    """Returns a store as one of mirrorlake's archives: itself, or what shows another program's archive so."""
    return store if layout is None else VIEWS[type(layout)](store, layout)
