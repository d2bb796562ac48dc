import subprocess
import sys
from pathlib import Path

from mirrorlake.config.loading import load_configuration
from mirrorlake.demo.commands import RunningCommand, command_line, program
from mirrorlake.demo.story import configuration


def test_a_command_is_shown_as_a_user_would_type_it() -> None:
    log, result = Path("/tmp/demo/run.log"), Path("/tmp/demo/verified.json")

    assert command_line(["run", "--once"], stderr=log) == "mirrorlake run --once 2> run.log"
    assert command_line(["verify"], stdout=result) == "mirrorlake verify > verified.json"


def test_a_command_runs_in_the_folder_and_its_output_goes_to_the_file(tmp_path: Path) -> None:
    with RunningCommand(["--version"], folder=tmp_path, stdout=tmp_path / "out") as command:
        assert command.wait() == 0

    assert (tmp_path / "out").read_text().startswith("mirrorlake ")


def test_a_command_that_still_runs_at_the_end_is_stopped(tmp_path: Path) -> None:
    # Waits for ever: a configuration that is a pipe nobody writes to.
    subprocess.run(["mkfifo", str(tmp_path / "pipe.yaml")], check=True)

    with RunningCommand(["validate", "-c", "pipe.yaml"], folder=tmp_path, stderr=tmp_path / "err") as command:
        assert command.exit_code is None

    assert command.exit_code is not None


def test_the_program_is_named_so_that_a_shell_finds_it() -> None:
    called = program()

    assert called == "mirrorlake" or Path(called).parent == Path(sys.executable).parent


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(configuration(east="127.0.0.1:1", west="127.0.0.1:2", lake=tmp_path / "lake"))

    config = load_configuration(file, {})

    assert [(m.name, [d.label for d in m.destinations]) for m in config.mirrors] == [
        ("shop", ["west", "lake"]),
        ("books", ["lake"]),
    ]


def test_the_configuration_can_be_read_on_a_narrow_screen() -> None:
    text = configuration(
        east="127.0.0.1:65535", west="127.0.0.1:65535", lake=Path("/tmp/mirrorlake-demo-12345678/lake")
    )

    assert max(map(len, text.splitlines())) <= 79
