"""The application with all commands, and the exit codes of the process.

The exit codes are 0 for success, 1 for a negative result, and 2 for wrong usage or no broker.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated

import typer
from typer.main import get_command

from kohort import interruption
from kohort.cli import (
    acl,
    analyse,
    broker,
    client_metrics,
    cluster,
    consume,
    fake,
    features,
    gateway,
    group,
    lab,
    produce,
    quota,
    rebalances,
    sim,
    top,
    topic,
    transactions,
    user,
    watch,
)
from kohort.cli.client_options import add_client_options
from kohort.cli.habits import hint
from kohort.cli.output import OutputClosed, flush, print_line, print_note
from kohort.cli.running import Refused
from kohort.errors import KohortError

app = typer.Typer(
    name="kohort",
    help="Apache Kafka's consumer groups in Python: a broker, its clients, and what a rebalance costs.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_line(f"kohort {version('kohort')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for module in (
    broker,
    client_metrics,
    cluster,
    gateway,
    fake,
    topic,
    transactions,
    group,
    user,
    acl,
    quota,
    features,
    produce,
    consume,
    rebalances,
    watch,
    top,
    sim,
    lab,
    analyse,
):
    module.register(app)
if find_spec("kohort.cli.demo") is not None:
    from kohort.cli import demo

    demo.register(app)


def run(arguments: Sequence[str] | None) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(arguments)
    except (Exception, KeyboardInterrupt):
        if not interruption.begun():
            raise
        return interruption.exit_code()  # errors caused by the signal are not reported


def _run(arguments: Sequence[str] | None) -> int:
    try:
        command = get_command(app)
        add_client_options(command)
        code = command(arguments, prog_name="kohort", standalone_mode=False)
        flush()
    except (KeyboardInterrupt, typer.Abort):
        return interruption.exit_code()
    except OutputClosed:
        # Otherwise the interpreter reports the unflushed output when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KohortError, typer.TyperException) as problem:
        if interruption.begun():
            return interruption.exit_code()
        if isinstance(problem, Refused):
            return _fail(str(problem), code=1)
        if isinstance(problem, KohortError):
            return _fail(str(problem))
        return _fail(f"{_with_hint(problem)} ({_help_of(problem)})".replace("\n", " "))
    if code == 130 and interruption.begun():  # typer's code for any KeyboardInterrupt
        return interruption.exit_code()
    return code if isinstance(code, int) else 0


def _with_hint(problem: typer.TyperException) -> str:
    """Return the message, and what to use instead of an option of another tool."""
    context, option = getattr(problem, "ctx", None), getattr(problem, "option_name", None)
    if context is None or option is None:
        return problem.format_message()
    names = any(parameter.param_type_name == "argument" for parameter in context.command.params)
    advice = hint(option, context.command_path, getattr(context.command, "commands", ()), takes_names=names)
    return f"{problem.format_message()}{f' Instead, {advice}.' if advice else ''}"


def _help_of(problem: typer.TyperException) -> str:
    """Return the command that prints the help of the command with the mistake."""
    context = getattr(problem, "ctx", None)
    return f"{'kohort' if context is None else context.command_path} --help"


def _fail(sentence: str, code: int = 2) -> int:
    print_note(f"kohort: {sentence}")
    return code
