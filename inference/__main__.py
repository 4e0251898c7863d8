"""`python -m inference`: one worker."""

from __future__ import annotations

import logging
import signal
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines import create_engine
from inference.engines.base import EngineError
from inference.protocol.drains import EXIT_STATUS
from inference.protocol.log_lines import FORMAT, LogFormatter
from inference.protocol.settings import SettingError, Settings, load, unknown_variables
from inference.protocol.tracing import open_spans
from inference.safety.warming import warm_up
from inference.worker import Worker

logger = logging.getLogger("inference")


def main() -> int:
    """Load the model, then serve it until SIGTERM, Ctrl-C or a drain."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        settings = load()
    except SettingError as error:
        logger.error("%s", error)
        return 2
    logging.getLogger().setLevel(settings.log_level)
    for name in unknown_variables():
        logger.warning("%s is set, but there is no such setting", name)
    folder = settings.models_path / settings.model
    if not (folder / "tokenizer.json").exists():
        logger.error("no model in %s: run `manage.py fetch_model`", folder)
        return 2
    try:
        engine = create_engine(settings)
        spans = open_spans(settings, "sluice-worker")
    except (SettingError, EngineError) as error:
        logger.error("%s", error)
        return 2
    warm_up(settings.device)
    stopping = threading.Event()
    worker = Worker(engine, _broker(settings, stopping), Vocabulary.load(folder), settings, stopping, spans)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    logger.info("worker %s serves %s with the %s engine", worker.id, settings.model, settings.engine)
    try:
        worker.run()
    finally:
        if spans is not None:
            spans.close()
    return EXIT_STATUS if worker.draining and not stopping.is_set() else 0


def _broker(settings: Settings, stopping: threading.Event) -> Broker:
    # The broker tries again itself: it tells the log, and it stops when the worker does.
    retry = Retry(NoBackoff(), 0)
    client = redis.Redis.from_url(settings.redis, socket_timeout=10, socket_connect_timeout=5, retry=retry)
    return Broker(
        client,
        model=settings.model,
        lease_s=settings.lease_s,
        log_ttl_s=settings.event_log_ttl_s,
        stopping=stopping,
    )


if __name__ == "__main__":
    sys.exit(main())
