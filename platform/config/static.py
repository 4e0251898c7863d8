"""Static files from the gateway: as they lie in the apps, or hashed and compressed once `collectstatic` has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]  # it has no types
from whitenoise.storage import CompressedManifestStaticFilesStorage  # type: ignore[import-untyped]


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise, without the two warnings it would give here."""

    def add_files(self, root: str | Path, prefix: str | None = None) -> None:
        if Path(root).is_dir():  # there is none before `collectstatic`
            super().add_files(root, prefix)

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """Answer with a whole file: Django's ASGI handler can iterate over an open one only with a warning."""
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file:
                body = found.file.read()
        response = HttpResponse(body, status=int(found.status))
        del response.headers["content-type"]
        for name, value in found.headers:
            response.headers[name] = value
        if found.file is not None:  # which may have changed since its size was noted: browsers wait for what is missing
            response.headers["Content-Length"] = str(len(body))
        return response


class StaticNames(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Names with a hash for what `collectstatic` has brought, plain ones for the rest."""

    def stored_name(self, name: str) -> str:
        known = self.hash_key(self.clean_name(name)) in self.hashed_files
        return str(super().stored_name(name)) if known else name
