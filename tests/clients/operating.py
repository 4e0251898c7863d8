"""A browser in the hands of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from tests.clients.driving import Browser
from tests.e2e.conftest import Product

PASSWORD = "a-long-pass-phrase"
MAKE = "from django.contrib.auth.models import User; User.objects.create_superuser({!r}, password={!r})"


class Operator(Browser):
    """The admin's pages, and somebody who may do all there is."""

    @classmethod
    @contextmanager
    def at(cls, product: Product, node: str, chromium: str, name: str) -> Iterator[Self]:
        """Start a browser in which an operator of this name is logged in."""
        product.manage("shell", "-c", MAKE.format(name, PASSWORD))
        with cls.start(node, chromium, product.url) as made:
            made.visit("/admin/login/?next=/admin/")
            made("fill", "#id_username", name)
            made("fill", "#id_password", PASSWORD)
            made("click", "[type=submit]")
            made("waitForSelector", "#logout-form")
            yield made

    def visit(self, path: str, *, width: int = 1280, colours: str = "light") -> None:
        self("setViewportSize", {"width": width, "height": 800})
        self("emulateMedia", {"colorScheme": colours})
        self("goto", path if path.startswith("http") else self.origin + path)

    def sees(self, selector: str) -> int:
        """How many there are."""
        return int(self("evaluate", f"document.querySelectorAll('{selector}').length"))

    def barriers(self) -> list[Any]:
        """What keeps people with disabilities out of the page, by the rules of axe; at best nothing."""
        return list(self("barriers"))
