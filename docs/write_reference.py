"""Writes docs/reference/methods.md and docs/reference/commands.md from the code:  python docs/write_reference.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import typer

from fedballot.cli.main import app
from fedballot.methods.api import Method
from fedballot.methods.registry import all_methods

FOLDER = Path(__file__).with_name("reference")
WRITTEN = "<!-- Written by `python docs/write_reference.py` from the code. -->"

METHODS = f"""# Methods

{WRITTEN}

What each method's entry says, as `fedballot methods` prints it. [Which method?](../methods.md) helps to choose.
"""

COMMANDS = f"""# Commands

{WRITTEN}

Every command has `--help` (`-h`), and `fedballot --install-completion` completes names in your shell. Results go to
stdout, progress and errors to stderr. Exit codes: 0 done, 1 the run failed, 2 wrong settings, 130 stopped.
"""


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    return {FOLDER / "methods.md": methods_page(), FOLDER / "commands.md": commands_page()}


def methods_page() -> str:
    lines = [METHODS]
    for method in all_methods().values():
        lines += [f"## {method.name}\n", f"{sentence(method.summary)}\n", "| | |", "|---|---|"]
        lines += [f"| {name} | {escaped(words)} |" for name, words in facts(method)]
        lines += ["", f"[Its settings](../settings.md#{method.name})\n"]
    return "\n".join(lines).rstrip() + "\n"


def facts(method: Method) -> Iterator[tuple[str, str]]:
    yield "a client sends", method.sends
    yield "protects", method.protects
    yield "from whom", method.from_whom
    yield "source", method.source
    yield "several labels per record", "yes" if method.multi_label else "no"


def commands_page() -> str:
    root = typer.main.get_command(app)
    assert isinstance(root, click.Group)
    lines, panel = [COMMANDS], ""
    for command in listed(root):
        if (title := getattr(command, "rich_help_panel", None) or panel) != panel:
            panel = title
            lines += [f"## {panel}\n"]
        lines += list(described(command, "fedballot", 3))
    return "\n".join(lines).rstrip() + "\n"


def listed(group: click.Group) -> Iterator[click.Command]:
    """The commands of a group as its help has them: panel by panel."""
    commands = [command for command in group.commands.values() if not command.hidden]
    panels = list(dict.fromkeys(getattr(command, "rich_help_panel", None) for command in commands))
    yield from sorted(commands, key=lambda command: panels.index(getattr(command, "rich_help_panel", None)))


def described(command: click.Command, path: str, level: int) -> Iterator[str]:
    """A command, and those below it."""
    name = f"{path} {command.name}"
    yield f"{'#' * level} {name}\n"
    yield f"{prose(command.help)}\n"
    group = isinstance(command, click.Group)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and one.name != "help"]
    if not group or command.invoke_without_command:
        words = [name, *(["[OPTIONS]"] if options else []), *(usage(one) for one in arguments)]
        yield f"```text\n{' '.join(words)}\n```\n"
    if arguments or options:
        yield "| | value | meaning |"
        yield "|---|---|---|"
        for one in [*arguments, *options]:
            yield f"| {' '.join(f'`{word}`' for word in flags(one))} | {value(one)} | {meaning(one)} |"
        yield ""
    if command.epilog:
        yield f"`{command.epilog.removeprefix('Example: ')}`\n"
    if group:
        for below in listed(command):
            yield from described(below, name, level + 1)


def usage(argument: click.Argument) -> str:
    word = argument.make_metavar(click.Context(click.Command("")))
    return word if argument.required else f"[{word.strip('[]')}]"


def flags(parameter: click.Parameter) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [(parameter.metavar or str(parameter.name)).strip("[]").removesuffix("...").upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def value(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return ""
    several = ", may be repeated" if parameter.multiple or parameter.nargs == -1 else ""
    word = parameter.type.name if isinstance(parameter, click.Argument) else parameter.metavar or parameter.type.name
    return f"{escaped(word)}{several}"


def meaning(parameter: click.Parameter) -> str:
    words = escaped(prose(getattr(parameter, "help", "") or ""))
    flag = isinstance(parameter, click.Option) and parameter.is_flag
    if parameter.required:
        return f"{words} Required."
    if parameter.default in (None, "", (), []) or callable(parameter.default) or flag or "efault:" in words:
        return words
    return f"{words} Default: `{parameter.default}`."


def prose(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
