"""Where a master is, and which address of this machine faces it."""

import socket

import pytest

from mirrorlake.pipeline.cluster.address import address_towards, master_addresses


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b.example:7078", [("a", 7077), ("b.example", 7078)]),
        ("spark://[fe80::1]:7077,b:7078", [("fe80::1", 7077), ("b", 7078)]),
        ("k8s://https://api.example:6443", [("api.example", 6443)]),
        ("k8s://https://api.example/clusters/one", [("api.example", 443)]),
        ("k8s://api.example", [("api.example", 443)]),
        ("yarn", []),
        ("local[4]", []),
    ],
)
def test_a_masters_url_says_where_it_is(master: str, addresses: list[tuple[str, int]]) -> None:
    assert master_addresses(master) == addresses


def test_the_address_towards_the_master_is_one_of_this_machine() -> None:
    assert address_towards("spark://127.0.0.1:7077") == "127.0.0.1"
    assert address_towards("spark://127.0.0.1:7077,127.0.0.2:7077") == "127.0.0.1"
    assert address_towards("k8s://https://127.0.0.1:6443") == "127.0.0.1"
    with socket.socket() as bound:
        bound.bind((address_towards("spark://localhost:7077"), 0))


def test_of_several_masters_the_first_one_that_has_a_way_counts() -> None:
    assert address_towards("spark://no-such-host.invalid:7077,127.0.0.1:7077") == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://no-such-host.invalid:7077"])
def test_where_the_way_is_not_known_spark_chooses_itself(master: str) -> None:
    assert address_towards(master) == ""
