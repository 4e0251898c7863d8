"""The one table of `SLUICE_*` settings, read by the web processes and by the workers alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class SettingError(ValueError):
    """Raised at start when an environment variable has a value we cannot use; the message says what would do."""


def setting(
    default: Any, about: str, *, least: float | None = None, most: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    """Declare one row of the table: default, one line of help, and the values allowed."""
    return field(default=default, metadata={"about": about, "least": least, "most": most, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting by its lower-case name; `home` is the environment's `SLUICE_HOME`, and so on."""

    # where things live
    home: str = setting(str(ROOT / "var"), "Folder of all state: database, embedded Redis, keys, models.")
    models: str = setting("", "Folder of the models; empty means `models` inside SLUICE_HOME.")
    redis_url: str = setting("", "Redis (`redis://`, `rediss://`, `unix://`); empty means the embedded one.")
    broker_url: str = setting("", "Redis of Celery and of the channel layer; empty means the same Redis.")
    database_url: str = setting("", "`postgres://user:password@host:port/name`; empty means SQLite.")
    # the site
    secret_key: str = setting("", "Signs cookies and keys' digests; empty means one generated in SLUICE_HOME.")
    debug: bool = setting(False, "Django's debug pages. Never in production.")
    allowed_hosts: str = setting("localhost,127.0.0.1,[::1]", "Host names the Django pages answer to, comma-separated.")
    trusted_origins: str = setting("", "Origins whose forms Django accepts, comma-separated (`https://example.org`).")
    secure_cookies: bool = setting(
        False, "The admin's cookies go over https alone, even where no proxy says `X-Forwarded-Proto: https`."
    )
    cors_origins: str = setting("", "Origins whose pages may use streams, comma-separated; `*` for all.")
    metrics_token: str = setting("", "Bearer token that shows /metrics to other machines; empty means to none.")
    max_body_mb: int = setting(4, "Largest request body.", least=1, most=256)
    receive_timeout_s: float = setting(
        30.0,
        "A request has to arrive within so long of its first byte, which a new connection has as long for.",
        least=1,
    )
    log_level: str = setting(
        "INFO", "What the logs of all processes tell.", choices=("DEBUG", "INFO", "WARNING", "ERROR")
    )
    otel: str = setting(
        "auto",
        "Traces for OpenTelemetry, with the extra `otel`; auto sends them where OTEL_EXPORTER_OTLP_ENDPOINT is set.",
        choices=("auto", "on", "off"),
    )
    aof_rewrite_s: float = setting(
        3600.0, "The embedded Redis drops what was deleted from its append-only file so often; 0 is never.", least=0
    )
    aof_rewrite_any: bool = setting(False, "The Redis at REDIS_URL is made to do so, too.")
    # streams
    heartbeat_s: float = setting(15.0, "A ping is sent when nothing was for so long.", least=0.1)
    event_log_ttl_s: int = setting(600, "How long a finished stream can be replayed.", least=1)
    event_log_max_mb: int = setting(
        512, "What all event logs may take; then finished ones go, the oldest first.", least=1
    )
    resume_window_s: float = setting(30.0, "A stream whose last reader has gone runs on for so long.", least=1)
    stream_buffer_events: int = setting(1000, "Events that may wait for a slow reader.", least=10)
    drain_s: float = setting(25.0, "Budget of a graceful stop.", least=0)
    # the queue
    queue_limit: int = setting(
        1000,
        "Requests that may wait for a worker; more get 529. The last tenth is for priority work, batch work has half.",
        least=1,
    )
    queue_timeout_s: float = setting(60.0, "A request that waited longer ends with a timeout.", least=1)
    request_timeout_s: float = setting(600.0, "A request that took longer in all ends with a timeout.", least=1)
    lease_s: float = setting(10.0, "A worker silent for so long loses its requests to another.", least=1)
    # safety
    safety_stop_reason: str = setting(
        "safety", "The stop reason of what safety cut; `refusal` is Anthropic's word.", choices=("safety", "refusal")
    )
    # records
    records_keep_days: int = setting(90, "Records older than so are deleted; 0 keeps all.", least=0, most=36_500)
    spool_alarm_s: float = setting(60.0, "The log warns of reports that wait longer for the database.", least=1)
    spool_alarm_reports: int = setting(20_000, "The log warns when more reports wait for the database.", least=1)
    spool_limit: int = setting(
        1_000_000, "When more reports wait for the database, new requests get 529: some 500 MB of Redis.", least=1
    )
    # batches
    batch_concurrency: int = setting(256, "Requests of batches that are in the queue or run at once, at most.", least=1)
    batch_share: float = setting(
        0.5,
        "Of the requests that workers can run at once, how many may be of batches; the rest is for who is in a hurry.",
        least=0.01,
        most=1,
    )
    batch_queue_limit: int = setting(
        100_000, "Requests of one organisation's batches that may wait; a batch with more gets 429.", least=1
    )
    batch_expires_s: int = setting(86_400, "What of a batch has not ended after so long expires.", least=10)
    batch_max_body_mb: int = setting(64, "Largest body of a request that creates a batch.", least=1, most=256)
    batch_results_days: int = setting(29, "Results of a batch are deleted so many days after it came.", least=1)
    # the engine
    model: str = setting("SmolLM2-135M-Instruct", "Name of the model a worker serves (a folder in SLUICE_MODELS).")
    engine: str = setting("transformers", "What runs the model.", choices=("transformers", "vllm", "simulated"))
    max_batch: int = setting(32, "Requests that one worker runs at once.", least=1, most=1024)
    max_batch_tokens: int = setting(512, "Tokens of one step; longer prompts are prefilled in chunks.", least=16)
    kv_cache_tokens: int = setting(32768, "Tokens that the KV cache of one worker holds.", least=256)
    prefix_cache: bool = setting(True, "What prompts of one organisation begin with alike is computed once.")
    dtype: str = setting(
        "auto",
        "Type of the weights; auto is bfloat16 where the device computes in it, else float32.",
        choices=("auto", "bfloat16", "float16", "float32"),
    )
    kernels: str = setting(
        "auto",
        "Who computes on a CPU: our C kernels (`native`; bfloat16, Llama family, needs a C compiler) or `torch`.",
        choices=("auto", "native", "torch"),
    )
    quantize: str = setting(
        "none",
        "Rounds weights to `int8`, in half the memory: faster, and slightly other answers. On native kernels only.",
        choices=("none", "int8"),
    )
    device: str = setting("auto", "`cuda`, `cuda:1`, `cpu`; auto takes a GPU where there is one.")
    tensor_parallel: int = setting(1, "vLLM engine: GPUs that share each layer.", least=1)
    pipeline_parallel: int = setting(1, "vLLM engine: stages that the layers are spread over.", least=1)
    parallel_backend: str = setting(
        "auto",
        "vLLM engine: a split model runs in processes of this machine (`mp`) or in a Ray cluster (`ray`).",
        choices=("auto", "mp", "ray"),
    )
    sim_tpot_ms: float = setting(20.0, "Simulated engine: time per token.", least=0)
    sim_prefill_ms: float = setting(20.0, "Simulated engine: time of a prefill.", least=0)

    @property
    def home_path(self) -> Path:
        return Path(self.home).expanduser().resolve()

    @property
    def models_path(self) -> Path:
        return Path(self.models).expanduser().resolve() if self.models else self.home_path / "models"

    @property
    def redis(self) -> str:
        """The Redis in use: the one named, or the embedded one, which leaves its address in `home`."""
        if self.redis_url:
            return self.redis_url
        noted = self.home_path / "redis" / "url"  # written where the socket's path would be too long
        return noted.read_text().strip() if noted.exists() else f"unix://{self.home_path / 'redis' / 'redis.sock'}"

    @property
    def broker(self) -> str:
        return self.broker_url or self.redis


# Names that the world knows without our prefix.
ALIASES = {"redis_url": "REDIS_URL", "database_url": "DATABASE_URL"}


def variable_of(name: str) -> str:
    """Return the environment variable that sets a field of `Settings`."""
    return ALIASES.get(name, f"SLUICE_{name.upper()}")


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings, raising `SettingError` on the first value that will not do."""
    values: dict[str, Any] = {}
    for row in fields(Settings):
        variable = variable_of(row.name)
        raw = environ.get(variable, "").strip()
        if raw:
            values[row.name] = _parse(variable, raw, type(row.default), row.metadata)
    return Settings(**values)


def unknown_variables(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the `SLUICE_*` variables that set nothing, so that a typing mistake can be told of."""
    known = {variable_of(row.name) for row in fields(Settings)}
    return sorted(name for name in environ if name.startswith("SLUICE_") and name not in known)


def _parse(variable: str, raw: str, kind: type, meta: Mapping[str, Any]) -> Any:
    if meta["choices"] and raw not in meta["choices"]:
        raise SettingError(f"{variable}={raw!r}: expected one of {', '.join(meta['choices'])}.")
    try:
        value = _READERS[kind](raw)
    except ValueError:
        raise SettingError(f"{variable}={raw!r}: expected {_EXPECTED[kind]}.") from None
    least, most = meta["least"], meta["most"]
    if least is not None and value < least:
        raise SettingError(f"{variable}={raw!r}: expected at least {least}.")
    if most is not None and value > most:
        raise SettingError(f"{variable}={raw!r}: expected at most {most}.")
    return value


def _read_bool(raw: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if raw.lower() not in words:
        raise ValueError
    return words[raw.lower()]


def _read_float(raw: str) -> float:
    value = float(raw)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError
    return value


_READERS: dict[type, Callable[[str], Any]] = {str: str, int: int, float: _read_float, bool: _read_bool}
_EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
