"""The program for `spark-submit`, which wants a file: ``spark-submit … mirrorlake/cli/submit.py run -c FILE``.

Every command of ``mirrorlake`` can be given; see docs/cluster.md.
"""

import sys
from pathlib import Path


def main() -> None:
    """Runs the command line below `spark-submit`; errors a user can cause end as one line and exit code 1."""
    from mirrorlake.cli.main import ending_as_a_command, main
    from mirrorlake.errors import ConfigurationError
    from mirrorlake.pipeline.cluster.submission import begin_submission

    with ending_as_a_command():
        found = begin_submission()
        if found is None:
            raise ConfigurationError(
                "this is the program for spark-submit, which has not started it",
                hint=f"spark-submit [its options] {__file__} run -c FILE; without spark-submit: mirrorlake run -c FILE",
            )
        found.follow()
    main()


if __name__ == "__main__":
    # Python looks for modules beside its script first, and there ours have names that are others' too.
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != Path(__file__).resolve().parent]
    main()
