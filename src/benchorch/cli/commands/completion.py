"""``benchorch completion SHELL``: the script that makes a shell complete benchorch's words."""

import click

from benchorch.cli.command import command
from benchorch.cli.completion import source
from benchorch.cli.terminal import Terminal
from benchorch.domain.reply import Reply


@command(
    "completion",
    help="""Print the script by which SHELL completes commands, keys, options, recipes and runs.

    \b
    bash  benchorch completion bash \\
            > ~/.local/share/bash-completion/completions/benchorch
    zsh   benchorch completion zsh > "${fpath[1]}/_benchorch"
    fish  benchorch completion fish > ~/.config/fish/completions/benchorch.fish
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def run(terminal: Terminal, shell: str) -> Reply:
    """The script."""
    text = source(shell)
    return Reply(text=text, data={"script": text}, verbatim=True)
