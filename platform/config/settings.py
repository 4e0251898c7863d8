"""Django's settings, all of them drawn from the `SLUICE_*` table in `inference.protocol.settings`."""

from __future__ import annotations

from importlib.metadata import version

import django_stubs_ext
from django.core.exceptions import ImproperlyConfigured

from config.databases import databases_of
from config.secrets_file import read_or_create
from inference.protocol.log_lines import FORMAT
from inference.protocol.settings import ROOT, SettingError, load
from inference.protocol.tracing import is_wanted

django_stubs_ext.monkeypatch()

try:
    SLUICE = load()
    is_wanted(SLUICE)  # which refuses what cannot be
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
    "config.apps.AdminConfig",
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
    "batches",
    "slo",
    "api",
    "console",
]

MIDDLEWARE = [
    "common.middleware.RequestIds",
    "common.content_policy.ContentSecurityPolicy",
    "common.secure_cookies.SecureCookies",
    "common.middleware.NoNulls",
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

DATABASES = databases_of(SLUICE)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = "config.formats"

STATIC_URL = "static/"
_collected = BASE_DIR / "static"  # of an image, which has them with the code: they are of its version, state is not
STATIC_ROOT = _collected if _collected.is_dir() else SLUICE.home_path / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static.StaticNames"},
}
WHITENOISE_USE_FINDERS = True  # nothing needs to be collected first
WHITENOISE_ALLOW_ALL_ORIGINS = False

SECURE_CONTENT_TYPE_NOSNIFF = True
# A proxy may have taken TLS off. Whoever says so wrongly misleads nobody but itself.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# Neither redirects to https nor HSTS come from us: whoever takes TLS off knows whether all of the host is https.
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W008"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SLUICE.secure_cookies  # over https they are in any case: `SecureCookies`
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True  # scripts take the token from the page's form
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
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
    "prune-records": {"task": "records.tasks.prune_records", "schedule": 600.0, "options": {"expires": 600.0}},
    "publish-policies": {"task": "safety.tasks.publish_policies", "schedule": 5.0, "options": {"expires": 5.0}},
    "prune-safety-triggers": {
        "task": "records.tasks.prune_safety_triggers",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "store-last-uses": {"task": "accounts.tasks.store_last_uses", "schedule": 30.0, "options": {"expires": 30.0}},
    "reconcile-quotas": {"task": "quotas.tasks.reconcile_quotas", "schedule": 60.0, "options": {"expires": 60.0}},
    "rewrite-append-only-file": {
        "task": "config.tasks.rewrite_append_only_file",
        "schedule": SLUICE.aof_rewrite_s or 86_400.0,  # 0 is never: the task sees to that
        "options": {"expires": 60.0},
    },
    "run-batches": {"task": "config.tasks.run_batches", "schedule": 1.0, "options": {"expires": 1.0}},
    "archive-batches": {"task": "batches.tasks.archive_batches", "schedule": 3600.0, "options": {"expires": 3600.0}},
    "make-table": {"task": "console.tasks.make_table", "schedule": 1.0, "options": {"expires": 1.0}},
    "tick": {"task": "console.tasks.tick", "schedule": 5.0, "options": {"expires": 5.0}},
    "roll-up": {"task": "slo.tasks.roll_up", "schedule": 10.0, "options": {"expires": 10.0}},
    "sample-load": {"task": "slo.tasks.sample", "schedule": 10.0, "options": {"expires": 10.0}},
    "prune-rollups": {"task": "slo.tasks.prune", "schedule": 600.0, "options": {"expires": 600.0}},
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
    "DEFAULT_SCHEMA_CLASS": "api.openapi.views.Schema",
    "DEFAULT_METADATA_CLASS": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Sluice",
    "VERSION": version("sluice"),
    "OAS_VERSION": "3.1.0",
    "TAGS": [
        {"name": "Usage", "description": "What the key's organisation used, and what is kept of each request."},
        {"name": "Keys", "description": "Managing an organisation's keys, with a key of the scope `admin`."},
    ],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "PREPROCESSING_HOOKS": ["streaming.openapi.hooks.leave_out"],
    "POSTPROCESSING_HOOKS": ["streaming.openapi.hooks.add_streaming"],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "common.middleware.RequestIdInLog"},
        "one_line": {"()": "common.middleware.WithoutTraceback"},
    },
    "formatters": {"line": {"()": "inference.protocol.log_lines.LogFormatter", "fmt": f"{FORMAT}%(tail)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}},
    "root": {"handlers": ["stderr"], "level": SLUICE.log_level},
    "loggers": {
        "django": {"handlers": []},  # Django's own would mail requests to ADMINS, bodies and all
        "daphne": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"filters": ["one_line"]},  # whoever scans a network causes them
        "django.utils.autoreload": {"level": "WARNING"},
    },
}
