"""A Django project in one file: the admin over 250 invented users. Run as a program: `django_site.py FOLDER PORT [open]`.

With `open`, `/enter?next=PATH` signs its visitor in without a form: for tests that only read pages behind it.

Only the sign-in template differs from Django's own: the password field is filled in advance, as by a browser's password
manager. Requests are served by Django's own development server, without its reloader.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

USERS: Final = 250  # beside the one who signs in
STAFF_EVERY: Final = 6  # every sixth is staff
ADMIN: Final = "keeper"
PASSWORD_FILE: Final = "password"  # in the folder: the admin's, made by the test
DATABASE: Final = "users.sqlite3"

urlpatterns: list[Any] = []

_SIGN_IN: Final = """<!doctype html><html lang="en"><head><title>Log in</title></head><body><main><h1>Log in</h1>
<form method="post">{% csrf_token %}{{ form.non_field_errors }}
<label for="id_username">Username</label><input id="id_username" name="username" value="" autocomplete="username">
<label for="id_password">Password</label><input id="id_password" name="password" type="password"
 autocomplete="current-password" value="{{ filled_in_advance }}">
<input type="hidden" name="next" value="{{ next }}"><button>Log in</button></form></main></body></html>"""


def _configure(folder: Path) -> None:
    from django.conf import settings

    password = (folder / PASSWORD_FILE).read_text()

    def filled(_request: object) -> dict[str, str]:
        return {"filled_in_advance": password}

    sys.modules["django_site_filled"] = type(sys)("django_site_filled")
    sys.modules["django_site_filled"].filled = filled  # type: ignore[attr-defined]
    common = "django.template.context_processors.request", "django.contrib.auth.context_processors.auth"
    settings.configure(
        DEBUG=False,
        SECRET_KEY=os.urandom(32).hex(),
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / DATABASE)}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
            "django.contrib.sessions", "django.contrib.messages", "django.contrib.staticfiles",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],  # quick: the passwords are invented
        STATIC_URL="/static/",
        TEMPLATES=[{
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {
                "context_processors": [
                    *common, "django.contrib.messages.context_processors.messages", "django_site_filled.filled",
                ],
                "loaders": [
                    ("django.template.loaders.locmem.Loader", {"admin/login.html": _SIGN_IN}),
                    "django.template.loaders.app_directories.Loader",
                ],
            },
        }],
    )  # fmt: skip


def _fill(folder: Path) -> None:
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    User.objects.create_superuser(ADMIN, "keeper@example.test", (folder / PASSWORD_FILE).read_text())
    User.objects.bulk_create(
        User(
            username=f"user{number:03d}",
            first_name=f"First{number % 17}",
            last_name=f"Last{number % 23}",
            is_staff=number % STAFF_EVERY == 0,
            is_active=number % 10 != 0,
            password="!",
        )
        for number in range(1, USERS + 1)
    )


def _enter(request: Any) -> Any:
    from django.contrib.auth import login
    from django.contrib.auth.models import User
    from django.shortcuts import redirect

    login(request, User.objects.get(username=ADMIN))
    return redirect(request.GET["next"])


def main() -> None:
    """Make the database and serve."""
    folder, port = Path(sys.argv[1]), sys.argv[2]
    _configure(folder)
    import django

    django.setup()
    from django.contrib import admin
    from django.core.management import call_command
    from django.urls import path

    urlpatterns.append(path("admin/", admin.site.urls))
    if sys.argv[3:] == ["open"]:
        urlpatterns.append(path("enter", _enter))
    _fill(folder)
    call_command("runserver", f"127.0.0.1:{port}", use_reloader=False, insecure_serving=True, verbosity=0)


if __name__ == "__main__":
    main()
