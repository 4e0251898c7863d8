"""Django's part of the URL space: what is rare. Streams never come here (see `config.asgi`)."""

from django.contrib import admin
from django.contrib.staticfiles.urls import staticfiles_urlpatterns
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("v1/", include("api.urls")),
    *staticfiles_urlpatterns(),
]
handler404 = "api.errors.not_found"
handler500 = "api.errors.server_error"
