"""How the site is built from these pages: `make docs`. Every page stays readable where the code is shown."""

import re
from pathlib import Path

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r'^VERSION = "(.+)"$', (ROOT / "orbit_django" / "protocol.py").read_text("utf-8"), re.MULTILINE)

project = "orbit_django"
copyright = "the orbit_django authors"  # noqa: A001  (the name that the generator reads)
release = VERSION[1] if VERSION else ""
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]  # it is included by index.rst
nitpicky = True

myst_heading_anchors = 4  # the anchors that a code host makes, so that links to headings are checked
myst_links_external_new_tab = False

html_theme = "furo"
html_title = f"orbit_django {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"


class OrbitLexer(RegexLexer):
    """Colours for the `.orbit` language."""

    name = "orbit"
    tokens = {
        "root": [
            (r"(#|//).*$", Comment.Single),
            (r'"(\\.|[^"\\])*"', String),
            (
                r"\b(task|workflow|step|version|input|output|worker|using|with|timeout|retry|return|idempotency_key)\b",
                Keyword,
            ),
            (r"\b\d+(\.\d+)?(ms|s|m|h)?\b", Number),
            (r"\w+", Name),
            (r"[{}\[\]:,.]", Punctuation),
            (r"\s+|.", Text),
        ]
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the language of contracts known."""
    app.add_lexer("orbit", OrbitLexer)
    return {"parallel_read_safe": True}
