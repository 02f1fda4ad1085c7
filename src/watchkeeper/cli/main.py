"""The command line: every command, its options, and how errors become exit codes.

Nothing but the command line's own library is imported here: each command loads what it needs,
so that help and SQL answer at once. Annotations are no texts here, because typer would evaluate
those of every command at every start.
"""

import atexit
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchkeeper.errors import EXIT_OK, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.context import Context

EXIT_CODES = """Exit codes: 0 nothing to act on, 1 regressed or a gate failed, 2 bad usage or
configuration (found before the first call), 3 no verdict, the evaluation itself is broken,
4 something changed, or no case was comparable."""

app = typer.Typer(
    name="watchkeeper",
    help="Finds out before your customers do whether an agent got worse.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
incidents_app = typer.Typer(
    help="Open regressions and what is said about them.", no_args_is_help=True
)
baseline_app = typer.Typer(help="The nights that runs are held against.", no_args_is_help=True)
app.add_typer(incidents_app, name="incidents")
app.add_typer(baseline_app, name="baseline")

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
EndpointName = Annotated[str, typer.Option("--endpoint", "-e", help="Name of the endpoint.")]


def _version(*, wanted: bool) -> None:
    if wanted:
        from watchkeeper import __version__

        typer.echo(f"watchkeeper {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    project: Annotated[
        Path | None,
        typer.Option(
            help="Project folder; else WATCHKEEPER_PROJECT, else the nearest one upward.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - acts by its callback
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Options that come before the command."""
    context.obj = project


def _here(context: typer.Context) -> "Context":
    from watchkeeper.cli.context import Context

    return Context(context.obj)


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Where the project goes.")] = Path(),
) -> None:
    """Write a starter project: configuration, one scripted endpoint, one suite."""
    from watchkeeper.cli.starting import init as command

    command(directory)


@app.command()
def demo(
    directory: Annotated[Path, typer.Argument(help="Where the demo's project goes.")] = Path(
        "watchkeeper-demo"
    ),
) -> None:
    """Three weeks of nights in a minute, then the model moves: see the page."""
    from watchkeeper.cli.demo import demo as command

    raise typer.Exit(command(directory))


@app.command()
def validate(
    context: typer.Context,
    offline: Annotated[
        bool, typer.Option("--offline", help="Take the last copies of registries; ask nobody.")
    ] = False,
) -> None:
    """Check every file of the project; all errors at once, each with file:line."""
    from watchkeeper.cli.starting import validate as command

    command(_here(context), is_offline=offline)


@app.command()
def endpoints(
    context: typer.Context,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit 4 where it changed since it was seen last."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what every endpoint asks for and what is served now."""
    from watchkeeper.cli.endpoints import endpoints as command

    raise typer.Exit(command(_here(context), is_check=check, as_json=as_json))


@app.command()
def plan(
    context: typer.Context,
    suite: Annotated[str, typer.Argument(help="Name of the suite.")],
    endpoint: EndpointName,
    as_json: Json = False,
) -> None:
    """Trials, dollars, minutes and the smallest change it can see; no call is made."""
    from watchkeeper.cli.looking import plan as command

    command(_here(context), suite, endpoint, as_json=as_json)


@app.command()
def run(
    context: typer.Context,
    suite: Annotated[str, typer.Argument(help="Name of the suite.")] = "",
    endpoint: Annotated[str, typer.Option("--endpoint", "-e", help="Name of the endpoint.")] = "",
    trials: Annotated[
        int | None, typer.Option("-k", "--trials", min=1, help="Trials of every case.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be repeated, * allowed.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Finish this run; only missing trials are made.")
    ] = None,
    purpose: Annotated[
        str, typer.Option(help="on_demand, or ci: any rate below its gate exits 1.")
    ] = "on_demand",
    as_json: Json = False,
) -> None:
    """Evaluate one suite on one endpoint now, and compare."""
    from watchkeeper.cli.running import run as command

    raise typer.Exit(
        command(
            _here(context),
            suite=suite,
            endpoint=endpoint,
            trials=trials,
            cases=tuple(case or ()),
            resume=resume,
            purpose=purpose,
            as_json=as_json,
        )
    )


@app.command()
def nightly(
    context: typer.Context,
    slot: Annotated[
        str | None,
        typer.Option(help="Scheduled time, ISO with zone; the latest due slot by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """The main job, through Prefect: every endpoint and suite, compare, page the owners."""
    from watchkeeper.cli.running import nightly as command

    raise typer.Exit(command(_here(context), slot=slot, as_json=as_json))


@app.command()
def serve(context: typer.Context) -> None:
    """Serve the deployments with their schedules in one process, until it is ended."""
    from watchkeeper.cli.running import serve as command

    command(_here(context))


@app.command()
def diff(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Argument(help="The newest run by default.")] = None,
    against: Annotated[
        str | None, typer.Option(help="'previous', or a run; the verdict's baselines by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a run's comparison says; nothing is rerun and nobody is told."""
    from watchkeeper.cli.looking import diff as command

    raise typer.Exit(command(_here(context), run_id, against, as_json=as_json))


@app.command()
def sql(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="One select statement.")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Read it from a file.")] = None,
    name: Annotated[
        str | None, typer.Option(help="A named query; 'watchkeeper sql' alone lists them.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="name=value; may be repeated.")
    ] = None,
    output: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
) -> None:
    """Ask history: runs, trials, rounds, tool_calls, grades, costs, verdicts, incidents."""
    from watchkeeper.cli.asking import sql as command

    command(
        _here(context), query=query, file=file, name=name, parameters=param or [], output=output
    )


@app.command()
def barren(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Transcripts or logs; folders are searched.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--format", help="Format of the files; found out by default.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="The store's history in place of files: 30d, 12h, a date.")
    ] = None,
    silent: Annotated[
        list[str] | None, typer.Option(help="A tool that never counts; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Count rounds whose every tool call brought nothing, and the tools behind them."""
    from watchkeeper.cli.barren import barren as command

    raise typer.Exit(
        command(
            _here(context),
            paths or [],
            kind=kind,
            since=since,
            silent=silent or [],
            as_json=as_json,
        )
    )


@app.command()
def doctor(context: typer.Context) -> None:
    """Check files, secrets, the store and every endpoint."""
    from watchkeeper.cli.looking import doctor as command

    raise typer.Exit(command(_here(context)))


@app.command()
def schemas(
    directory: Annotated[Path, typer.Argument(help="Where the files go.")],
) -> None:
    """Write the JSON Schemas of the configuration files, for editors."""
    from watchkeeper.cli.starting import schemas as command

    command(directory)


@baseline_app.command("show")
def baseline_show(
    context: typer.Context,
    suite: Annotated[str, typer.Argument(help="Name of the suite.")],
    endpoint: EndpointName,
) -> None:
    """Show which nights the next night will be held against."""
    from watchkeeper.cli.looking import baseline as command

    command(_here(context), suite, endpoint)


@incidents_app.command("list")
def incidents_list(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Ended ones too.")] = False,
    as_json: Json = False,
) -> None:
    """List open incidents."""
    from watchkeeper.cli.telling import incidents as command

    command(_here(context), everything=everything, as_json=as_json)


@incidents_app.command("show")
def incidents_show(
    context: typer.Context,
    incident_id: Annotated[str, typer.Argument(help="inc-… as the page names it.")],
) -> None:
    """Show one incident with its history."""
    from watchkeeper.cli.telling import show as command

    command(_here(context), incident_id)


Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept with the incident.")]
By = Annotated[str, typer.Option("--by", help="Who says so; the user of this machine by default.")]
IncidentId = Annotated[str, typer.Argument(help="inc-… as the page names it.")]


@incidents_app.command("ack")
def incidents_ack(
    context: typer.Context, incident_id: IncidentId, by: By = "", reason: Reason = ""
) -> None:
    """Say that somebody has taken the incident."""
    from watchkeeper.cli.telling import say as command

    command(_here(context), incident_id, "acknowledged", by, reason)


@incidents_app.command("accept")
def incidents_accept(
    context: typer.Context, incident_id: IncidentId, reason: Reason, by: By = ""
) -> None:
    """Say that the change is wanted: nights from here on are the new baseline."""
    from watchkeeper.cli.telling import say as command

    command(_here(context), incident_id, "accepted", by, reason)


@incidents_app.command("invalid")
def incidents_invalid(
    context: typer.Context, incident_id: IncidentId, reason: Reason, by: By = ""
) -> None:
    """Say that it was no regression: the page was false, or the grader was at fault."""
    from watchkeeper.cli.telling import say as command

    command(_here(context), incident_id, "invalid", by, reason)


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    atexit.register(gc.freeze)  # what is loaded need not be looked through once more at the end
    try:
        app()
    except WatchkeeperError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("stopped; finished trials are kept", file=sys.stderr)
        sys.exit(130)
    except SystemExit as ended:
        # Typer ends with 1 where the reader of the output has gone; 1 would say: regressed.
        if isinstance(ended.__context__, BrokenPipeError):
            sys.exit(EXIT_OK)
        raise
