"""Django's settings, all of them drawn from the `SLUICE_*` table in `inference.protocol.settings`."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured

from config.secrets_file import read_or_create
from inference.protocol.settings import ROOT, SettingError, load

django_stubs_ext.monkeypatch()

try:
    SLUICE = load()
except SettingError as error:
    raise ImproperlyConfigured(str(error)) from None

BASE_DIR = ROOT
DEBUG = SLUICE.debug
try:
    SECRET_KEY = SLUICE.secret_key or read_or_create(SLUICE.home_path / "secret_key")
except OSError as error:
    raise ImproperlyConfigured(f"SLUICE_HOME={SLUICE.home!r}: cannot keep state there: {error}") from None
ALLOWED_HOSTS = [host.strip() for host in SLUICE.allowed_hosts.split(",") if host.strip()]
CSRF_TRUSTED_ORIGINS = [origin.strip() for origin in SLUICE.trusted_origins.split(",") if origin.strip()]

INSTALLED_APPS = [
    "config.apps.ConfigConfig",
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "common",
    "accounts",
    "quotas",
    "records",
    "safety",
    "api",
    "console",
]

MIDDLEWARE = [
    "common.middleware.RequestIds",
    "django.middleware.security.SecurityMiddleware",
    "config.static.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def _database(url: str) -> dict[str, Any]:
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": SLUICE.home_path / "sluice.sqlite3",
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may have a part of the password
        raise ImproperlyConfigured("DATABASE_URL: no port can be read; percent-encode a password's / and @.") from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"DATABASE_URL: expected postgres://…, not {parts.scheme}://…")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": port or "",
        "OPTIONS": {"connect_timeout": 5},
        "CONN_MAX_AGE": 0,  # each request has a thread of its own under Daphne: kept connections would leak
    }


DATABASES = {"default": _database(SLUICE.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = SLUICE.home_path / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static.StaticNames"},
}
WHITENOISE_USE_FINDERS = True  # nothing needs to be collected first
WHITENOISE_ALLOW_ALL_ORIGINS = False

SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [SLUICE.broker]}},
}

CELERY_BROKER_URL = SLUICE.broker.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    # A tick that finds the last one still waiting is of no use to anyone, so it expires.
    "store-records": {"task": "records.tasks.store_records", "schedule": 1.0, "options": {"expires": 1.0}},
    "store-last-uses": {"task": "accounts.tasks.store_last_uses", "schedule": 30.0, "options": {"expires": 30.0}},
    "reconcile-quotas": {"task": "quotas.tasks.reconcile_quotas", "schedule": 60.0, "options": {"expires": 60.0}},
    "forget-periods": {"task": "quotas.tasks.forget_periods", "schedule": 3600.0, "options": {"expires": 3600.0}},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["api.authentication.KeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "api.errors.render_error",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "common.middleware.RequestIdInLog"},
        "one_line": {"()": "common.middleware.WithoutTraceback"},
    },
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s%(tail)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "daphne": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"filters": ["one_line"]},  # whoever scans a network causes them
        "django.utils.autoreload": {"level": "WARNING"},
    },
}
