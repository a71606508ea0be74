"""``benchorch open RUN``: the run's page in the browser, as far as the run is."""

import webbrowser

import click

from benchorch.cli.command import command, run_argument
from benchorch.cli.commands.comparison_arguments import REFERENCE
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.results.compare.load_run import derive, locate
from benchorch.results.report.run_page import write_run_page


@command(
    "open",
    help=f"""Update the page of a run, finished or not, and open it in the browser.

    RUN is {REFERENCE}.
    """,
)
@run_argument()
@click.option("--no-browser", is_flag=True, help="only write the page")
def run(terminal: Terminal, run: str, no_browser: bool) -> Reply:
    """Where the page is, and whether a browser shows it."""
    directory = locate(run)
    if directory.is_file():
        problem = f"{run} is an exported file: benchorch report FILE --output X.html"
        raise ConfigError([problem])
    derived = derive(directory.resolve(), run, terminal.say, running=True)
    try:
        path = write_run_page(derived)
    except OSError as error:
        problem = f"{directory} cannot be written: {error.strerror}. Try: benchorch report "
        raise ConfigError([f"{problem}{run} --output report.html"]) from error
    shown = not no_browser and webbrowser.open(path.as_uri())
    text = f"{path}" if shown else f"{path}\nOpen it in a browser: {path.as_uri()}"
    return Reply(text=text, data={"page": str(path), "opened": shown})
