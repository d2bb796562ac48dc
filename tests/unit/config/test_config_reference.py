import re
from pathlib import Path

from docs.configuration_page import NATIVE_SECTIONS, V3_SECTIONS, reference_page
from mirrorlake.config.section import Section

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
ABSTRACT = {"CommonForm", "DestinationForm", "MirrorGroupHeadForm", "MirrorHeadForm", "V3ArchiveForm", "V3PoliciesForm"}


def test_the_committed_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), "stale: run `make docs`"


def test_every_model_has_its_section() -> None:
    models: list[type[Section]] = [Section]
    for model in models:
        models.extend(each for each in model.__subclasses__() if each.__module__.startswith("mirrorlake."))
    shown = {model.__name__ for _, model in (*NATIVE_SECTIONS, *V3_SECTIONS)}
    assert {model.__name__ for model in models} - shown - ABSTRACT == {"Section"}


def test_a_row_holds_field_kind_default_and_meaning() -> None:
    page = reference_page()
    assert "| `max-bytes` | size | `128MiB` | Bytes before compression, and 32 for each header. |" in page
    assert "| `partition` | number | **required** | Source partition, and destination partition. |" in page
    assert "| `topics` | list of topic or `/expression/` | **required** |" in page
    assert "| `service.control` | anything but `off` | leave it out, or use `control: off` |" in page


def test_the_command_reload_is_named_only_beside_who_can_give_it() -> None:
    """No signal and no command of the command line reaches it; programs that run a service themselves call it."""
    named = [
        line
        for page in PAGE.parent.glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.search(r"`reload\b", line) and not line.startswith("| `reload()` |")
    ]
    assert len(named) == 2
    assert all("[`reload`](#commands-of-a-running-service)" in line for line in named)
