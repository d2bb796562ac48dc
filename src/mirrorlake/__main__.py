"""``python -m mirrorlake`` is the ``mirrorlake`` command."""

from mirrorlake.cli.main import main

main()
