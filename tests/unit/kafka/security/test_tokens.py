"""When a token is used on, and when the next one is asked for."""

import time

import pytest

from mirrorlake.kafka.security.tokens import Token, TokenCache
from mirrorlake.security import TlsSettings, TokenSettings


@pytest.mark.parametrize(("life_seconds", "refresh_after"), [(100.0, 80.0), (3600.0, 2880.0), (8.0, 6.0), (1.0, -1.0)])
def test_a_token_is_refreshed_after_four_fifths_and_never_shown_in_its_last_two_seconds(
    life_seconds: float, refresh_after: float
) -> None:
    token = Token(text="t", received=1000.0, expires=1000.0 + life_seconds)
    assert token.refresh_after == pytest.approx(1000.0 + refresh_after)


def test_a_token_never_shows() -> None:
    assert "hunter2" not in repr(Token(text="hunter2", received=0.0, expires=1.0))


def test_connections_share_a_token_until_it_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text("first\n")
    settings = TokenSettings(endpoint_url=file.as_uri())
    cache = TokenCache()

    def obtain() -> Token:
        return cache.obtain(settings, cluster="east", tls=TlsSettings(), timeout_seconds=1.0)

    assert cache.fresh(settings) is None
    first = obtain()
    file.write_text("second\n")
    assert (obtain(), first.text) == (first, "first")
    assert first.expires > time.time()
    cache.forget(settings, first)
    assert obtain().text == "second"
    cache.forget(settings, first)  # that one was replaced: the newer stays
    fresh = cache.fresh(settings)
    assert fresh is not None
    assert fresh.text == "second"
