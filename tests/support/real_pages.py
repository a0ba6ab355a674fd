"""Real pages that nobody here wrote, on loopback: applications and widget libraries from package registries.

    with real_pages(folder) as found:
        for page in found.pages:      # name, url, task, the controls that the task needs
            ...
        found.missing                 # name: why it can't be shown here

Invariants: every page is whole once all of its `needed` controls are there (several are built by script after `load`); its
content is the same at every start, but for tokens in the URL. Measures nothing and starts no browser.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .apps.datasette_app import datasette
from .apps.django_app import django_admin
from .apps.host_pages import host_pages, missing_packages
from .apps.jupyter_app import jupyter_lab

Needed = tuple[tuple[str, str], ...]  # role and exact accessible name


@dataclass(frozen=True, slots=True)
class RealPage:
    """One page. `task`: a line for its reader; `needed`: role and exact name of every control the task takes."""

    name: str
    url: str
    task: str
    needed: Needed


@dataclass(slots=True)
class RealPages:
    """`pages` are served as long as the block runs; `missing` says why the others are not."""

    pages: list[RealPage] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> RealPage:
        return next(page for page in self.pages if page.name == name)


# Names are the DOM's text: Chromium's tree, other than ARIA's rules, gives them as `text-transform` draws them.
TASKS: Final[dict[str, tuple[str, Needed]]] = {
    "datasette": (
        "Sort the stations by height, go to the next page and export it as CSV",
        (("link", "height"), ("link", "Next page"), ("button", "Apply"), ("button", "Export CSV")),
    ),
    "django-list": (
        "Search for a user, and open the form for a new one",
        (
            ("textbox", "Search"),
            ("button", "Search"),
            ("combobox", "Action:"),
            ("button", "Go"),
            ("link", "Add user"),
            ("button", "Log out"),
        ),
    ),
    "django-form": (
        "Change the user's first name, make them staff and save",
        (
            ("textbox", "First name:"),
            ("textbox", "Email address:"),
            ("checkbox", "Staff status"),
            ("button", "Save"),
            ("link", "Delete"),
        ),
    ),
    "jupyterlab": (
        "Save the notebook, run its first cell and open the File menu",
        (
            ("menuitem", "File"),
            ("button", "Save and create checkpoint (Ctrl+S)"),
            ("button", "Run this cell and advance (Shift+Enter)"),
            ("combobox", "Cell type"),
            ("button", "New Folder"),
        ),
    ),
    "govuk": (
        "Accept the cookies, give a date of birth, choose how to sign in and continue",
        (
            ("button", "Accept analytics cookies"),
            ("textbox", "Day"),
            ("textbox", "Month"),
            ("textbox", "Year"),
            ("radio", "Sign in with Government Gateway"),
            ("button", "Save and continue"),
        ),
    ),
    "swagger-ui": (
        "Open the operation that lists boats, then authorise",
        (
            ("button", "Authorize"),
            ("button", "GET /boats List boats"),
            ("button", "POST /tides Create tides"),
        ),
    ),
    "python-docs": (
        "Go to the class FileType",
        (("link", "index"), ("link", "ArgumentParser"), ("link", "FileType")),
    ),
    "jstree": (
        "Find a port, then choose Port 2.3",
        (
            ("searchbox", "Find a port"),
            ("treeitem", "Region 1"),
            ("treeitem", "Port 2.3"),
            ("treeitem", "Region 8"),
        ),
    ),
    "fullcalendar": (
        "Go to the next month and show its weeks",
        (("button", "Previous month"), ("button", "Next month"), ("button", "week"), ("button", "list")),
    ),
    "datatables": (
        "Search for a keeper, show fifty a page, sort by age",
        (
            ("searchbox", "Search:"),
            ("combobox", "entries per page"),
            ("button", "Age: Activate to sort"),
            ("link", "Next"),
        ),
    ),
    "select2": (
        "Name the boat, stay overnight and book",
        (
            ("textbox", "Boat's name"),
            ("checkbox", "Stay overnight"),
            ("button", "Book"),
            ("combobox", "Harbour 1"),
        ),
    ),
    "jquery-ui": (
        "Open the dialog, choose the second tab",
        (("button", "Open Dialog"), ("radio", "Choice 1"), ("tab", "Second"), ("button", "A button element")),
    ),
}
_HOSTED: Final = {
    "govuk": "/govuk",
    "swagger-ui": "/swagger",
    "python-docs": "/pydoc",
    "jstree": "/jstree",
    "fullcalendar": "/calendar",
    "datatables": "/datatable",
    "select2": "/select2",
    "jquery-ui": "/npm/jquery-ui-dist/index.html",
}
NAMES: Final = ("datasette", "django-list", "django-form", "jupyterlab", *_HOSTED)


@contextlib.contextmanager
def real_pages(folder: Path, only: Collection[str] = NAMES) -> Iterator[RealPages]:
    """Serve the pages named in `only`; the applications keep their files in `folder`, a fresh one."""
    found = RealPages()
    with contextlib.ExitStack() as stack:
        _applications(folder, only, found, stack)
        base = stack.enter_context(host_pages())
        for name, path in _HOSTED.items():
            if name not in only:
                continue
            absent = missing_packages(path)
            if absent:
                found.missing[name] = f"npm packages are not installed: {', '.join(absent)}"
            else:
                _add(found, name, base + path)
        yield found


def _add(found: RealPages, name: str, url: str) -> None:
    found.pages.append(RealPage(name, url, *TASKS[name]))


def _applications(folder: Path, only: Collection[str], found: RealPages, stack: contextlib.ExitStack) -> None:
    def place(name: str) -> Path:
        made = folder / name
        made.mkdir(parents=True)
        return made

    if "datasette" in only and _installed(found, "datasette", "datasette"):
        _add(found, "datasette", stack.enter_context(datasette(place("datasette"))).url)
    django = [
        name for name in ("django-list", "django-form") if name in only and _installed(found, name, "django")
    ]
    if django:
        site = stack.enter_context(django_admin(place("django"), open_door=True)).url
        inside = {"django-list": "/admin/auth/user/", "django-form": "/admin/auth/user/7/change/"}
        for name in django:
            _add(found, name, f"{site}/enter?next={inside[name]}")
    if "jupyterlab" in only and _installed(found, "jupyterlab", "jupyterlab"):
        url, token = stack.enter_context(jupyter_lab(place("jupyterlab")))
        _add(found, "jupyterlab", f"{url}/lab/tree/tides.ipynb?token={token}")


def _installed(found: RealPages, name: str, package: str) -> bool:
    if importlib.util.find_spec(package) is not None:
        return True
    found.missing[name] = f"the Python package {package} is not installed"
    return False
