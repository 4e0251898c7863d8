"""Settings, URLs and entry points: the only package that knows all others."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
