"""The root of the command tree: finds commands when they are called, and turns every error into a code and words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from counterfoil import __version__
from counterfoil.cli.exits import Exit, Failure, failure_of, usage_failure
from counterfoil.cli.face import Face
from counterfoil.cli.options import face_options
from counterfoil.cli.streams import OF_OUTPUT, OutputFailed, open_standard_streams, silence

COMPLETE: Final = "_COUNTERFOIL_COMPLETE"
"""The variable with which a shell asks for completions."""

COMMANDS: Final = {
    "demo": "A refund survives a kill at the dangerous moment; told from the ledger.",
    "init": "Make a ledger.",
    "import": "Import transcripts of other agents, or archives.",
    "copy": "Copy a whole ledger to another place or engine.",
    "backup": "Put a ledger, its keys and its artifacts into one file.",
    "restore": "Make the ledger of a backup, and accept what is lost.",
    "export": "Write conversations into an archive.",
    "ls": "List conversations, runs, effects or reviews.",
    "show": "Show a conversation or a run as a timeline, or one event exactly.",
    "search": "Find events by what was said in them.",
    "tail": "Print events as they are recorded.",
    "verify": "Check every stored byte, and say what that proves.",
    "doctor": "The health of a ledger in one screen.",
    "migrate": "Take an older store over into a ledger of this schema.",
    "rebuild": "Make the derived rows again from the events.",
    "recover": "End the doubt of effects whose worker is gone.",
    "worker": "Go on with what can go on, until told to stop.",
    "schedule": "What comes by itself: list, add, cancel.",
    "tools": "List the declared tools, or show one.",
    "observe": "Keep what a provider said by itself about an effect.",
    "review": "What waits for a person: list, show, assign, settle.",
    "approve": "What waits for permission: list, show, grant, deny, revoke.",
    "repair": "Undo what was wrong, on record: start, show, resume, close, correct.",
    "hold": "The stop lever: let no new effect begin.",
    "cancel": "End a run from outside.",
    "shadow": "What a policy in shadow would have refused.",
    "reconcile": "Hold a tool's effects against the provider's own book.",
    "keys": "Data keys and their epoch: list, rotate, hand over.",
    "access": "Who was shown what, and why; breaking the glass.",
    "slots": "State slots of a conversation: list, history.",
    "projections": "State folded from events: list, show, rebuild.",
    "artifacts": "Bytes outside the events: list, get, verify.",
    "turns": "List turns, the newest first.",
    "turn": "Show or check one turn.",
    "replay": "Run a run's code again on its record, and compare.",
    "rehearse": "Run a run again with another model or policy; effects from the record or blocked.",
    "diff": "Two runs side by side.",
    "bench": "Measure side by side against the budgets.",
    "help": "Help on a command.",
}
"""The commands in the order of the help page, each with its line there, so that help loads none of them."""


class Root(click.Group):
    """Loads a command when it is named, and leaves with the codes of :mod:`counterfoil.cli.exits`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command, imported now."""
        if cmd_name == "help":
            return help_command
        if cmd_name not in COMMANDS:
            return None
        # A module cannot be called import.
        name = "import_" if cmd_name == "import" else cmd_name
        module = import_module(f"counterfoil.cli.verbs.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run a command line and leave."""
        open_standard_streams()
        words = list(sys.argv[1:] if args is None else args)
        face = extra.pop("obj", None) or Face()
        prog_name = extra.pop("prog_name", None) or "counterfoil"
        try:
            code = self._run(words, face, prog_name, extra)
            face.flush()
        except BrokenPipeError:
            # Whoever read us has seen enough.
            silence(sys.stdout)
            code = int(Exit.DONE)
        except OutputFailed as error:
            code = _unprinted(face, error)
        sys.exit(code)

    def _run(self, words: list[str], face: Face, prog_name: str, extra: dict[str, Any]) -> int:
        if COMPLETE in face.environment:
            super().main(words, prog_name, complete_var=COMPLETE)
        try:
            # Not the library's own main, which answers a closed pipe with its own code.
            with self.make_context(prog_name, words, obj=face, **extra) as context:
                code = self.invoke(context)
        except click.exceptions.Exit as leave:
            return leave.exit_code
        except (BrokenPipeError, OutputFailed):
            raise
        except OSError as error:
            if error.filename is None and error.errno in OF_OUTPUT:
                # The library prints help and version by itself.
                raise OutputFailed(error.strerror) from error
            return self._failed(error, words, face)
        except BaseException as error:  # noqa: BLE001 - every error leaves with its code and in words
            return self._failed(error, words, face)
        return code if isinstance(code, int) else int(Exit.DONE)

    def _failed(self, error: BaseException, words: list[str], face: Face) -> int:
        face.as_json = face.as_json or "--json" in words
        failure = _failure(error)
        face.tell(failure)
        if face.environment.get("COUNTERFOIL_TRACEBACK"):
            sys.excepthook(type(error), error, error.__traceback__)
        return int(failure.exit)


def _unprinted(face: Face, error: OutputFailed) -> int:
    """Say on standard error that standard output failed. What the command did is done all the same."""
    silence(sys.stdout)
    failure = Failure(
        Exit.TRY_AGAIN,
        "output_failed",
        f"the output cannot be written: {error}",
        retryable=True,
        hint="what the command recorded is recorded; run it again with an output that takes what it prints",
    )
    face.tell(failure, aside=True)
    return int(failure.exit)


def _failure(error: BaseException) -> Failure:
    match error:
        case click.exceptions.Abort():
            return failure_of(KeyboardInterrupt())
        case click.exceptions.NoArgsIsHelpError():
            return usage_failure("a command is missing", "`counterfoil --help` lists them")
        case click.UsageError():
            where = error.ctx.command_path if error.ctx is not None else "counterfoil"
            return usage_failure(_plain(error), f"`{where} --help` says what it takes")
        case click.ClickException():
            return usage_failure(_plain(error))
        case _:
            return failure_of(error)


def _plain(error: click.ClickException) -> str:
    """What the library says, without the line breaks and tabs that it lists choices with."""
    return " ".join(error.format_message().split())


@click.group(
    name="counterfoil",
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A ledger is a directory: --ledger, else COUNTERFOIL_LEDGER, else counterfoil.toml, else ./ledger.",
)
@click.version_option(__version__, prog_name="counterfoil", message="%(prog)s %(version)s")
@face_options(ledger=True)
def root() -> None:
    """The transaction log for AI agents: what happened, what is in doubt, and what that proves."""


@click.command(name="help", short_help="Help on a command.")
@click.argument("words", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Help on a command, as its --help prints."""
    context = ctx.find_root()
    command: click.Command = context.command
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no command {word!r}", ctx)
        context = click.Context(found, info_name=word, parent=context)
        command = found
    click.echo(command.get_help(context))
