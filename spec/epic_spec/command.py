"""The `epic` command: assembled from what each package offers, with one way to end (architecture rule 6).

Exit codes: 0 good, 1 a check or a collective failed, 2 bad input, 130 interrupted, 141 the output was closed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

import typer

from epic_spec import cli
from epic_spec.errors import CollectiveError, EpicError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141

Register = Callable[[typer.Typer], None]


def build_app(registers: Sequence[Register] | None = None) -> typer.Typer:
    """The whole command. `registers` are functions that add sub-commands to an app; by default those of the
    entry points of group `epic.commands`. One that does not load is named on stderr and left out."""
    app = typer.Typer(
        name="epic",
        help="In-network collectives on Ethernet: reference system.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def _root(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for register in _installed() if registers is None else registers:
        register(app)
    return app


def group(app: typer.Typer, name: str, help_text: str) -> typer.Typer:
    """The command group `name` of `app`, made where it is not there yet, so that several packages can add to it."""
    for known in app.registered_groups:
        if known.name == name and known.typer_instance is not None:
            return known.typer_instance
    made = typer.Typer(help=help_text, no_args_is_help=True)

    # With a callback the group stays one while it has a single command.
    @made.callback()
    def _group() -> None:
        pass

    app.add_typer(made, name=name)
    return made


def check_group(app: typer.Typer) -> typer.Typer:
    """`epic check`."""
    return group(app, "check", "Proofs, compile and resource checks.")


def bench_group(app: typer.Typer) -> typer.Typer:
    """`epic bench`."""
    return group(app, "bench", "Measurements of speed.")


def _installed() -> list[Register]:
    """The functions of the entry points, this package's own first: it is here without an installation too."""
    found: list[Register] = [cli.register]
    points: dict[str, EntryPoint] = {p.value: p for p in entry_points(group="epic.commands")}
    for value, point in sorted(points.items(), key=lambda item: item[1].name):
        if value == "epic_spec.cli:register":
            continue
        try:
            found.append(point.load())
        except (ImportError, AttributeError) as error:
            print(f"epic: the commands of {point.name!r} are left out: {error}", file=sys.stderr)
    return found


def run(app: typer.Typer, args: Sequence[str]) -> int:
    """Run a command line; the exit code. Errors of EPIC and of the command line are one line on stderr."""
    try:
        result = app(list(args), standalone_mode=False, prog_name="epic")
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except SystemExit as error:
        # Typer turns a closed pipe into SystemExit(1) by itself.
        if isinstance(error.__context__, BrokenPipeError):
            return _pipe_closed()
        raise
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except CollectiveError as error:
        return _fail(error, EXIT_FAILED)
    except (EpicError, OSError) as error:
        return _fail(error, EXIT_BAD_INPUT)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except Exception as error:
        message = _usage(error)
        if message is None:
            raise
        return _fail(message, EXIT_BAD_INPUT)
    return result if isinstance(result, int) else 0


def _pipe_closed() -> int:
    """What is left in the buffer can go nowhere; without this the interpreter complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_PIPE


def _fail(error: object, code: int) -> int:
    """One line on stderr (none where there is nothing to say: the help was shown instead); the exit code."""
    if message := " ".join(str(error).split()):
        print(f"epic: {message}", file=sys.stderr)
    return code


def _usage(error: Exception) -> str | None:
    """The message of a command line error, None for any other exception.

    It is known by its method: Typer brings its own copy of Click's UsageError in some versions.
    """
    formatter = getattr(error, "format_message", None)
    if formatter is None:
        return None
    message = str(formatter()).rstrip(".")
    context = getattr(error, "ctx", None)
    where = f" (see `{context.command_path} --help`)" if message and context is not None else ""
    return message + where


def main() -> None:
    """Entry point of the console script `epic`."""
    sys.exit(run(build_app(), sys.argv[1:]))


if __name__ == "__main__":
    main()
