"""The ASGI application as any server takes it: a gateway with the web in it. Our own commands build theirs."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)  # before our own imports

from django.conf import settings

from config.routing import build
from streaming.gateway import Gateway

application = build(Gateway(settings.SLUICE))
