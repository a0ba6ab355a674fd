"""All commands, registered in the order in which help shows them. Each lives in a module of its own and is
imported only when it runs, so that `supervisor run` carries no terminal library it does not need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...protocol.limits import MAX_PLAYBOOK_BYTES
from .common import ConfigFile, JsonFlag, Sets

app = typer.Typer(
    help="Gives an AI agent a browser without giving it web pages.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Show, explain and check the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"browsercell {version('browsercell')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Gives an AI agent a browser without giving it web pages."""


@app.command()
def run(
    file: ConfigFile = None,
    sets: Sets = None,
    lifeline: Annotated[bool, typer.Option("--lifeline", help="End when standard input closes.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but faults.")] = False,
    json: JsonFlag = False,
) -> None:
    """Run the supervisor until it is told to stop."""
    from . import run as command

    command.run(file, sets, lifeline=lifeline, quiet=quiet, json=json)


@app.command()
def status(file: ConfigFile = None, sets: Sets = None, json: JsonFlag = False) -> None:
    """List every process of the running supervisor and the state of each part."""
    from . import status as command

    command.status(file, sets, json=json)


@app.command()
def doctor(file: ConfigFile = None, sets: Sets = None, json: JsonFlag = False) -> None:
    """Check everything a task needs; every fault comes with its remedy."""
    from . import doctor as command

    command.doctor(file, sets, json=json)


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--output", help="Where the two files are delivered.")] = Path(
        "demo-output"
    ),
    json: JsonFlag = False,
) -> None:
    """Run one task on a bundled bookshop: real worker, real Chromium, two files, and the memory proof."""
    from . import demo as command

    command.demo(directory, json=json)


@app.command()
def delegate(
    goal: Annotated[str, typer.Argument(help="What the browser worker shall achieve.")],
    url: Annotated[str | None, typer.Option(help="Start page.")] = None,
    browser: Annotated[str, typer.Option(help="auto, chrome or private.")] = "auto",
    constraint: Annotated[
        list[str] | None, typer.Option(help="A rule for the worker; may be repeated.")
    ] = None,
    deliver: Annotated[
        list[str] | None,
        typer.Option(metavar="PURPOSE:KIND:PATH", help="A file wanted below --directory; may be repeated."),
    ] = None,
    playbook: Annotated[
        Path | None,
        typer.Option(help=f"Steps as JSON or TOML (≤ {MAX_PLAYBOOK_BYTES // 1024} KiB) instead of a model."),
    ] = None,
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Value for ${NAME} in the playbook.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="The typed answer wanted: name:kind,... or a JSON Schema (text, or a file's path).",
        ),
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="Only pages of this origin; may be repeated.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Nothing is clicked, typed or sent.")
    ] = False,
    no_free_text: Annotated[
        bool, typer.Option("--no-free-text", help="Let no text through that a page may have written.")
    ] = False,
    steps: Annotated[int | None, typer.Option(help="At most so many model steps.")] = None,
    calls: Annotated[int | None, typer.Option(help="At most so many tool calls.")] = None,
    seconds: Annotated[int | None, typer.Option(help="At most so many seconds.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: repeated, it gives the first result.")
    ] = None,
    directory: Annotated[Path, typer.Option(help="Working directory for deliveries.")] = Path(),
    file: ConfigFile = None,
    sets: Sets = None,
    json: JsonFlag = False,
) -> None:
    """Run one task; starts a supervisor of its own where none runs."""
    from . import delegate as command

    command.delegate(
        command.Wanted(
            goal, url, browser, constraint, deliver, playbook, var, steps, calls, seconds, key, answer, origin,
            read_only, no_free_text,
        ),
        directory, file, sets, json=json,
    )  # fmt: skip


@app.command()
def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP on 127.0.0.1 instead of standard input.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="With --http: the port, 17322 by default; 0 takes a free one."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Working directory for deliveries; by default the client's first root."),
    ] = None,
    child: Annotated[bool, typer.Option("--child", help="Offer only the tools that run nothing.")] = False,
    file: ConfigFile = None,
    sets: Sets = None,
    json: JsonFlag = False,
) -> None:
    """Serve the tools to an MCP client; starts a supervisor of its own where none runs."""
    from . import mcp as command

    command.mcp(file, sets, http=http, port=port, directory=directory, child=child, json=json)


@config_app.command("show")
def config_show(file: ConfigFile = None, sets: Sets = None, json: JsonFlag = False) -> None:
    """Print every setting with its value and where it comes from."""
    from . import config_commands as command

    command.show(file, sets, json=json)


@config_app.command("schema")
def config_schema(json: JsonFlag = False) -> None:
    """Print the JSON Schema of the configuration file."""
    from . import config_commands as command

    command.schema(json=json)


@config_app.command("check")
def config_check(file: ConfigFile = None, sets: Sets = None, json: JsonFlag = False) -> None:
    """Check the configuration and say where it comes from."""
    from . import config_commands as command

    command.check(file, sets, json=json)
