"""Django's part of the URL space: what is rare. Streams never come here (see `config.routing`)."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from api.docs.view import show_docs

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/console/", include("console.urls")),
    path("admin/", admin.site.urls),
    path("v1/", include("api.urls")),
    path("docs/", show_docs),
    path("demo/", include("console.demo.urls")),
]
handler400 = "api.errors.bad_request"
handler403 = "api.errors.permission_denied"
handler404 = "api.errors.not_found"
handler500 = "api.errors.server_error"
