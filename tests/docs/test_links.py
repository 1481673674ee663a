"""Links between the pages lead somewhere where the code is shown, too: files exist, and so do headings."""

import re

import pytest

from tests.docs.pages import ALL, FENCE, FOLDER, PAGES, ROOT, text_of

LINK = re.compile(r"(?<!!)\]\(([^)\s]+)\)")


def anchors(page: str) -> set[str]:
    """Return the anchors that a code host gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL)
def test_what_a_page_links_to_is_there(page: str) -> None:
    missing = []
    for link in LINK.findall(FENCE.sub("", text_of(page))):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target.resolve().relative_to(ROOT).as_posix())):
            missing.append(link)
    assert missing == []


def test_the_site_and_the_list_of_pages_name_every_page_once() -> None:
    pages = sorted(page.removeprefix("docs/") for page in PAGES if page != "docs/README.md")
    assert sorted(LINK.findall(text_of("docs/README.md"))) == sorted([*pages, "tutorial.md"])  # which is named twice
    tree = re.findall(r"^   ([\w/-]+)$", (FOLDER / "index.rst").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(f"{page}.md" for page in tree) == pages


def test_pages_are_named_in_the_code_by_where_they_are() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for folder in ("orbit_django", "tests", "benchmarks", "example_project")
        for path in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert sorted((path, page) for path, page in named if not (ROOT / page).exists()) == []
    assert named
