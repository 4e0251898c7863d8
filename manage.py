#!/usr/bin/env python
"""Run Sluice's management commands."""

import importlib
import os
import sys


def main() -> None:
    """Run the command that the arguments name."""
    os.umask(0o077)  # what our commands write is state, for its owner alone
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        importlib.import_module(os.environ["DJANGO_SETTINGS_MODULE"])
    except ImproperlyConfigured as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        print(f"Error: the database does not answer: {str(error).strip().splitlines()[0]}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
