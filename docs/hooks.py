"""What mkdocs has to know of this repository: the README is the home page, and files outside of docs/ have pages too.

Links stand in the sources as they work in the repository; here they are turned to where the site has the same thing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
HOME = "README.md"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")
LANGUAGES = {".py": "python", ".sh": "sh", ".sbatch": "sh", ".yaml": "yaml", ".toml": "toml", "Dockerfile": "docker"}


def place(path: str) -> str:
    """Where the site has a file of the repository, by its path from the root."""
    if path == HOME:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if "/" not in path:
        return path if path.endswith(".md") else f"{path}.md"
    return f"source/{path}.md"


def linked(path: str, text: str) -> Iterator[str]:
    """What a text links to, by paths from the root."""
    for link in LINK.findall(text):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def content(path: str) -> str:
    """A page that shows a file, or lists a folder."""
    target = ROOT / path
    if path == HOME:
        return f"---\nhide: [navigation]\n---\n\n{target.read_text()}"
    if target.suffix == ".md":
        return target.read_text()
    if target.is_dir():
        names = sorted(one.name for one in target.iterdir() if one.is_file())
        return f"# {path}\n\n" + "\n".join(f"- [{name}]({posixpath.basename(path)}/{name})" for name in names) + "\n"
    language = LANGUAGES.get(target.suffix or target.name, "text")
    return f"# {path}\n\n````{language}\n{target.read_text().rstrip()}\n````\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the home page, and a page for all that is linked outside of docs/."""
    ours = [f"docs/{file.src_uri}" for file in files.documentation_pages() if file.src_uri.endswith(".md")]
    waiting = [HOME, *(link for path in ours for link in linked(path, (ROOT / path).read_text()))]
    pages: dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        if path.startswith("docs/") or path in pages or not (ROOT / path).exists():
            continue
        pages[path] = content(path)
        if path.endswith(".md") or (ROOT / path).is_dir():
            waiting += linked(path, pages[path])
    for path, text in pages.items():
        file = File.generated(config, place(path), content=text)
        files.append(file)
        ORIGINS[file.src_uri] = path
    return files


ORIGINS: dict[str, str] = {}  # of pages that stand for files outside of docs/


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links that leave docs/, or come from outside, to the site's own pages."""
    here = page.file.src_uri
    origin = ORIGINS.get(here, f"docs/{here}")

    def turned(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[1]))
        return posixpath.relpath(place(target), posixpath.dirname(here) or ".")

    if here.endswith(".ipynb") or origin.endswith(tuple(LANGUAGES)):
        return markdown
    return LINK.sub(turned, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Turn the links of notebooks, which come as HTML."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'href="(?!https?:)([^"#]+)\.(?:ipynb|md)\b', r'href="\1.html', html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuse a page that would load something from elsewhere."""
    if fault := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {output[fault.start() : fault.end() + 60]}")
    return output
