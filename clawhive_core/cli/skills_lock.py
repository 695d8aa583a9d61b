"""`clawhive skills lock`: write down what skills are, or hold that nothing changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clawhive_core.cli.output import format_option, hand_over, note, print_json
from clawhive_core.cli.settings import Settings

if TYPE_CHECKING:
    from clawhive_core.skills.locking.relock import Relock


@click.command("lock", epilog="Example: clawhive skills lock --frozen")
@click.option("--frozen", is_flag=True, help="Write nothing; exit with 1 where it would change.")
@format_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(settings: Settings, *, frozen: bool, output: str, as_json: bool) -> int:
    """Write clawhive.lock: what the project's skills are, promise and need.

    What changed since is accepted with it, and shown. Exits with 1 where a skill has an error.
    """
    from clawhive_core.config.trust import refuse_inside_run
    from clawhive_core.diagnostics.reports import render
    from clawhive_core.hive.found_skills import relocked

    render((), output)  # an unknown form is refused before the work
    if not frozen:
        refuse_inside_run(os.environ, "what is accepted of skills")
    made = relocked(settings.config(), settings.plugins())
    made = made.frozen() if frozen else made.write()
    if as_json or output == "json":
        print_json(made.to_dict())
    else:
        if made.findings or output != "text":
            hand_over(render(made.findings, output, strict=frozen) + "\n")
        _note(made)
    return 1 if made.state in {"blocked", "stale"} else 0


def _note(made: Relock) -> None:
    from clawhive_core.model.texts import counted

    name, skills = made.file.path.name, counted(made.skills, "skill")
    note(
        {
            "blocked": "nothing is written: mend this first",
            "current": f"{name} is as it should be: {skills}",
            "stale": f"{name} would change: look at it, then clawhive skills lock",
            "written": f"{skills} written into {name}",
        }[made.state]
    )
