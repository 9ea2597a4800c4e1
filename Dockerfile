# One version of Python and of Debian: what is built next year is built from the same. requirements.txt pins the rest by hash.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN python -m venv --without-pip /opt/meshplan \
    && pip --python /opt/meshplan/bin/python install --no-cache-dir --require-hashes --requirement requirements.txt \
    && pip --python /opt/meshplan/bin/python install --no-cache-dir --no-deps .

FROM python:3.11.14-slim-bookworm
COPY --from=build /opt/meshplan /opt/meshplan
# OpenShift runs a container under a number of its own choice, in group 0: the database's folder is writable by that group.
# /work is where a folder of the caller's own is mounted.
RUN useradd --no-create-home --home-dir /data --uid 10001 meshplan \
    && install --directory --owner 10001 --group 0 --mode 0770 /data \
    && mkdir /work
ENV PATH=/opt/meshplan/bin:$PATH HOME=/data MESHPLAN_DATA_DIR=/data
USER 10001
WORKDIR /work
VOLUME /data
EXPOSE 8765
# No HEALTHCHECK: the image also runs workers and single commands, which answer no requests. The server's is in examples/deploy.
ENTRYPOINT ["meshplan"]
CMD ["--help"]
