"""``benchorch open RUN``: the run's page in the browser, as far as the run is."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Callable, Sequence

from benchorch.cli.commands.comparison_arguments import REFERENCE
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.journal.lock import is_running
from benchorch.progress import Say, silent
from benchorch.results.compare.load_run import derive, locate
from benchorch.results.report.run_page import write_run_page


def run(
    arguments: Sequence[str], say: Say = silent, browse: Callable[[str], bool] = webbrowser.open
) -> Reply:
    """Write the page of a run anew and open it.

    Args:
        arguments: those after ``open``.
        say: receives progress, where it takes longer than a moment.
        browse: opens an address; whether it could.
    """
    options = _parser().parse_args(list(arguments))
    directory = locate(options.run)
    if directory.is_file():
        problem = f"{options.run} is an exported file: benchorch report FILE --output X.html"
        raise ConfigError([problem])
    derived = derive(directory.resolve(), options.run, say, running=True)
    try:
        path = write_run_page(derived, running=is_running(directory))
    except OSError as error:
        problem = f"{directory} cannot be written: {error.strerror}. Try: benchorch report "
        raise ConfigError([f"{problem}{options.run} --output report.html"]) from error
    shown = not options.no_browser and browse(path.as_uri())
    text = f"{path}" if shown else f"{path}\nOpen it in a browser: {path.as_uri()}"
    return Reply(text=text, data={"page": str(path), "opened": shown})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch open", description=__doc__.replace("``", ""), allow_abbrev=False
    )
    parser.add_argument("run", metavar="RUN", help=REFERENCE)
    parser.add_argument("--no-browser", action="store_true", help="only write the page")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser
