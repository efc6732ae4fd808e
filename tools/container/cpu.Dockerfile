# The service on the CPU. Build it from the root of the repository:
#   docker build -f tools/container/cpu.Dockerfile -t mulo .
#   docker run --read-only --tmpfs /tmp -p 8000:8000 -v /models/reference-r4:/bundle:ro mulo

FROM python:3.13-slim-trixie@sha256:ffb752e139c0a19692a43af8d8523b274222dd68eebad5d583b45c2201c6e30a AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/mulo \
    && /opt/mulo/bin/pip install --no-cache-dir --constraint constraints.txt '.[cpu,service]'

FROM python:3.13-slim-trixie@sha256:ffb752e139c0a19692a43af8d8523b274222dd68eebad5d583b45c2201c6e30a
COPY --from=build /opt/mulo /opt/mulo
ENV PATH=/opt/mulo/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/livez', timeout=9)"]
ENTRYPOINT ["mulo", "serve", "/bundle", "--host", "0.0.0.0"]
