"""Celery's part in safety."""

from __future__ import annotations

import logging

from celery import shared_task

from common.redis import connection
from safety.publishing import heal

logger = logging.getLogger(__name__)


@shared_task
def publish_policies() -> None:
    """Tell gateways and workers of the policies again, where Redis has lost something, or missed a change."""
    if heal(connection()):
        logger.info("safety policies were published again")
