# Image of `groupreplay watch`: Python and the wheel with the extras kafka, serve, logs and msk; neither Java nor Spark.
# Build it from the root of the checkout:  docker build -f deploy/watch.Dockerfile -t groupreplay-watch:0.1.0 .

FROM python:3.12.11-slim-bookworm@sha256:519591d6871b7bc437060736b9f7456b8731f1499a57e22e6c285135ae657bf7 AS build
WORKDIR /source
COPY deploy/requirements-build.txt deploy/requirements-watch.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.txt \
 && pip install --no-cache-dir --require-hashes --target /packages -r requirements-watch.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip install --no-cache-dir --no-deps --target /packages /wheels/groupreplay-*.whl
# Parts of Arrow that nothing here loads, and what Amazon's client knows of services to which nobody logs in;
# tests/project/test_watch_image.py starts watch and makes a token of Amazon MSK without them.
RUN cd /packages/pyarrow \
 && rm -rf include tests *flight* *gandiva* *orc* \
 && find /packages/botocore/data -mindepth 1 -maxdepth 1 -type d ! -name 'sso*' ! -name sts ! -name signin -exec rm -r {} + \
 && find /packages -name __pycache__ -prune -exec rm -r {} + \
 && find /packages/numpy -name tests -prune -exec rm -r {} +

FROM python:3.12.11-slim-bookworm@sha256:519591d6871b7bc437060736b9f7456b8731f1499a57e22e6c285135ae657bf7
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin groupreplay \
 && install --directory --owner=groupreplay --group=groupreplay /var/lib/groupreplay
COPY --from=build /packages /packages
ENV PYTHONPATH=/packages PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /var/lib/groupreplay
ENTRYPOINT ["python", "-m", "groupreplay"]
CMD ["watch", "--help"]
