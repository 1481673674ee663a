"""What a shell would be given: the commands of a block, told apart, and put before their own parsers."""

import re
import shlex
from collections.abc import Iterator

from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError, CommandParser

from tests.docs.listing import actions
from tests.docs.pages import text_of

# Programs of others that the pages use; a word that is none of these is a slip of the pen.
PROGRAMS = {
    ".", "cat", "cd", "curl", "django-admin", "do", "done", "for", "install", "kill", "make", "mkdir", "mv", "openssl",
    "pip", "printf", "pytest", "python", "python3", "sudo", "systemctl",
}  # fmt: skip
TARGET = re.compile(r"^([a-z-]+):.*##", re.MULTILINE)
ALIASES = {"warehouse": "other"}  # the second database of a page, and that of the suite
ENDS = {";", "&&", "||", "|", "&"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the simple commands of a text, each as its words; what follows a redirection is left out."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
        lexer.commenters = "#"
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in ENDS:
                words.append(word)
                continue
            if words:
                yield _without_redirection(words)
            words = []


def _without_redirection(words: list[str]) -> list[str]:
    return words[: words.index(">")] if ">" in words else words


def faults(words: list[str]) -> list[str]:
    """Return what is wrong with a simple command; nothing where it is somebody else's program."""
    while words and words[0] in ("do", "sudo"):
        words = words[1:]
    if not words or "=" in words[0]:
        return []
    program = words[0].rpartition("/")[2]
    if program in ("python", "python3") and len(words) > 2 and words[1] == "manage.py":
        return managed(words[2:])
    if program == "django-admin":
        return managed(words[1:])
    if program == "make":
        targets = TARGET.findall(text_of("Makefile"))
        return [f"make {word}: no such target" for word in words[1:] if "=" not in word and word not in targets]
    return [] if program in PROGRAMS or words[0] in PROGRAMS else [f"{words[0]}: not a program that the pages use"]


def managed(words: list[str]) -> list[str]:
    """Put a command of manage.py before its own parser."""
    name, *arguments = words
    if name not in get_commands():
        return [f"manage.py {name}: no such command"]
    parser = parser_of(name)
    try:
        parser.parse_args([ALIASES.get(word, word) for word in arguments])
    except CommandError as error:
        return [f"manage.py {' '.join(words)}: {error}"]
    return []


def parser_of(name: str) -> CommandParser:
    """Return the parser of any command of Django's or ours; it raises instead of ending the process."""
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    command._called_from_command_line = False
    parser = command.create_parser("manage.py", name)
    for each in (parser, *actions(parser).values()):
        each.allow_abbrev = False  # half an option is a slip of the pen
    return parser
