# The service on an NVIDIA GPU, with the TensorRT 11.1 of NVIDIA's image. Build it from the root of the repository:
#   docker build -f tools/container/tensorrt.Dockerfile -t mulo-tensorrt .
# Engines are made once for every GPU, into a folder beside the bundle, which stays read-only:
#   docker run --gpus all --user "$(id -u)" -v /models/llamagen-512:/bundle:ro -v /var/lib/mulo:/engines \
#       --entrypoint mulo-export mulo-tensorrt build /bundle --backend tensorrt --engines /engines
#   docker run --gpus all --read-only --tmpfs /tmp -p 8000:8000 \
#       -v /models/llamagen-512:/bundle:ro -v /var/lib/mulo:/engines:ro mulo-tensorrt

FROM nvcr.io/nvidia/tensorrt:26.07-py3@sha256:b82db1abc23750ab0069abc99bbe4ea29138dbdc23ea39861199e2346638b48a
WORKDIR /source
COPY . .
# The image's own TensorRT is used and not a second one.
RUN python3 -m venv --system-site-packages /opt/mulo \
    && /opt/mulo/bin/pip install --no-cache-dir --constraint constraints.txt \
        '.[export,service]' 'cuda-core>=1,<2' 'cuda-bindings>=13,<14' \
    && /opt/mulo/bin/python -c 'import tensorrt; assert tensorrt.__version__.startswith("11."), tensorrt.__version__'
WORKDIR /
ENV PATH=/opt/mulo/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=300s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/livez', timeout=9)"]
ENTRYPOINT ["mulo", "serve", "/bundle", "--host", "0.0.0.0", "--backend", "tensorrt", "--engines", "/engines"]
