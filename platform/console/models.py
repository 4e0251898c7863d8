"""What staff may do in the console, as Django's permissions: they need a content type to belong to."""

from __future__ import annotations

from django.db import models


class Console(models.Model):
    """No rows: the permissions of the console's pages, and what its entries in the admin's log are about."""

    class Meta:
        default_permissions = ()
        permissions = (
            ("view_streams", "Can watch active streams"),
            ("cancel_streams", "Can cancel streams"),
            ("view_slo", "Can see SLOs and latency"),
            ("view_processes", "Can see workers and gateways"),
            ("drain_processes", "Can drain workers and gateways"),
        )
