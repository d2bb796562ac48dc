"""What a running service answers on its read-only listener: every path is one question to it."""

from typing import Protocol

import structlog
from prometheus_client import make_wsgi_app

from mirrorlake.config.resolved import Configuration, Form
from mirrorlake.errors import ConfigurationError
from mirrorlake.service.sight import live
from mirrorlake.service.sight.health import Verdict
from mirrorlake.service.sight.listener import Listener, json_app, verdict_app
from mirrorlake.service.sight.metrics import Metrics

_log = structlog.get_logger("mirrorlake")


class Questions(Protocol):
    """What a service can be asked."""

    def status(self) -> dict[str, object]:
        """Returns how every partition stands."""
        ...

    def health(self) -> Verdict:
        """Returns whether everything that should move does."""
        ...

    def readiness(self) -> Verdict:
        """Returns whether everything was looked at, and not everything is parked."""
        ...


def open_listener(service: Questions, metrics: Metrics, config: Configuration, *, once: bool) -> Listener | None:
    """Begins to listen where the configuration says; returns None where nobody listens.

    Args:
        service: is asked.
        metrics: what ``/metrics`` shows.
        config: says where.
        once: whether the run is bounded; it does without a listener where the address is taken.

    Raises:
        ConfigurationError: the address is taken or not ours.
    """
    address = config.service.metrics
    # mirror-v3's words and ways, which its users' tools may look for and its users may count on.
    is_v3 = config.form is Form.MIRROR_V3
    if address is None:
        if is_v3:
            _log.info("metrics exporter disabled (MIRROR_V3_METRICS_PORT=0)")
        return None
    routes = {
        "/metrics": make_wsgi_app(metrics.registry),
        "/healthz": verdict_app(service.health),
        "/readyz": verdict_app(service.readiness),
        live.PATH: json_app(service.status),
    }
    try:
        listener = Listener(routes, address.host, address.port)
    except ConfigurationError as error:
        # A bounded run with the configuration of a service that runs: who serves the mirrors is found out later.
        if not (is_v3 or once):
            raise
        _log.warning("metrics exporter failed; continuing", error=error.message, hint=error.hint, addr=str(address))
        return None
    if is_v3:
        _log.info("metrics exporter listening on /metrics", addr=f"{address.host}:{listener.port}")
    else:
        _log.info("metrics endpoint listens", address=f"{address.host}:{listener.port}", path="/metrics")
    return listener
