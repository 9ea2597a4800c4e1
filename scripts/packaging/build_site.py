"""Builds the documentation site from docs/ and other pages, without a network; no page loads anything from another host.

`make site` writes it into app/static/docs, which git ignores and a checkout's server reads. A wheel build makes its own.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "app" / "static" / "docs"
CONFIG = ROOT / "docs" / "zensical.toml"
DECISIONS = "adr/index.md"

# Pages outside docs/, and the folder of decisions, whose index is generated here.
BESIDE = {
    "README.md": "index.md",
    "README.zh.md": "zh/index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "THIRD_PARTY.md": "third-party.md",
    "calibration/runs/README.md": "measured-runs.md",
    "docs/adr": DECISIONS,
}
# A script that the generator would load from another host, for pages opened from disk; ours replaces it.
_ITS_WORKER = '"https://unpkg.com/iframe-worker/shim"'
_OUR_WORKER = Path("search_from_disk.js")
# The generator writes the index of its search twice: as a script for pages opened from disk, and as data for a server's.
# Both take the script, which halves it.
_ITS_INDEX = re.compile(r'location\.protocol==="file:"\?(\w+\(`\$\{new URL\("search\.js")')
# Files of the generator that are removed: a page for unknown addresses, for which the server has a problem document; a sitemap,
# which needs an address; the theme variant that is not used; the second index of the search.
LEFT_OUT = ("404.html", "sitemap.xml", "sitemap.xml.gz", "objects.inv", "assets/stylesheets/classic", "search.json")

_FENCED = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
_LINKED_IMAGE = re.compile(r"\[(!\[[^\]]*\]\([^)]*\))\]\(([^)\s]+)\)")


class SiteError(Exception):
    """A page that cannot be part of the site, and why."""


def pages() -> dict[str, str]:
    """Pages of the site: path in the checkout, and path in the site."""
    docs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    return {**{name: name.removeprefix("docs/") for name in sorted(docs)}, **BESIDE}


def site_text(name: str, text: str, named: dict[str, str]) -> str:
    """A page's text with links of the site; a link to a file that is no page becomes plain text."""

    def target(link: str) -> str | None:
        if re.match(r"[a-z]+:|#", link):
            return link
        path, _, anchor = link.partition("#")
        found = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        known = named.get(found, found.removeprefix("docs/") if found.startswith("docs/images/") else None)
        if known is None:
            return None
        relative = posixpath.relpath(known, posixpath.dirname(named[name]) or ".")
        return f"{relative}#{anchor}" if anchor else relative

    def rewritten(match: re.Match[str]) -> str:
        link = target(match[2])
        return match[1] if link is None else f"[{match[1]}]({link})"

    parts = _FENCED.split(text)
    parts = [
        part.replace("```console\n", "```bash\n", 1) for part in parts
    ]  # commands, which the colours of a console would show as output
    parts[::2] = [_LINK.sub(rewritten, _LINKED_IMAGE.sub(rewritten, part)) for part in parts[::2]]
    return "".join(parts)


def _decisions() -> str:
    """The index of decisions, by title."""
    found = sorted((ROOT / "docs" / "adr").glob("*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")) for path in found]
    return "# Decisions\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)


def gather(folder: Path) -> None:
    """Write every page and picture of the site into ``folder``, in the generator's form."""
    named = pages()
    for name, page in named.items():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _decisions() if page == DECISIONS else site_text(name, (ROOT / name).read_text(encoding="utf-8"), named)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", folder / "images")


def _search_from_disk(site: Path) -> None:
    """Make the search work in pages of ``site`` that are opened from disk, with one index for these and a server's."""
    shutil.copy(ROOT / "docs" / _OUR_WORKER, site)
    (bundle,) = (site / "assets" / "javascripts").glob("bundle.*.js")
    text, found = _ITS_INDEX.subn(r"!0?\1", bundle.read_text(encoding="utf-8"))
    if found != 1:
        raise SiteError(f"{bundle.relative_to(site)}: the generator's choice of a search index is not where it was")
    bundle.write_text(text, encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if text.count(_ITS_WORKER) != 1:
            raise SiteError(f"{page.relative_to(site)}: the generator's script for pages opened from disk is not where it was")
        ours = posixpath.relpath(_OUR_WORKER.as_posix(), page.parent.relative_to(site).as_posix())
        page.write_text(text.replace(_ITS_WORKER, f'"{ours}"'), encoding="utf-8")


def build(site: Path = SITE) -> None:
    """Build the site in the folder ``site`` and replace its content; a broken link between pages is an error."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        gather(folder / "pages")
        shutil.copy(CONFIG, folder / CONFIG.name)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", CONFIG.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SiteError(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))
        for name in LEFT_OUT:
            left = folder / "site" / name
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink(missing_ok=True)
        _search_from_disk(folder / "site")
        shutil.rmtree(site, ignore_errors=True)
        site.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "site", site)


if __name__ == "__main__":
    build()
