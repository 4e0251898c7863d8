"""`manage.py fetch_model [ID or path]`: bring a model into SLUICE_MODELS."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.fetching import fetch


class Command(BaseCommand):
    """Bring a model."""

    help = "Bring a model into SLUICE_MODELS: SmolLM2-135M-Instruct, one of the Hugging Face hub, or one on this disk."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", nargs="?", help="hub id (`owner/name`), folder with safetensors, or GGUF file")
        parser.add_argument("--name", help="name to serve it under (the last part of the id or path)")

    def handle(self, *args: Any, **options: Any) -> None:
        arguments = [options["source"]] if options["source"] else []
        arguments += ["--name", options["name"]] if options["name"] else []
        status = fetch(settings.SLUICE, *arguments)
        if status:
            sys.exit(status)  # what went wrong is on the screen already
