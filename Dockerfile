# One version of Python and of Debian: what is built next year is built from the same. constraints.txt pins the rest.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels '.[postgres,telemetry]'

FROM python:3.11.14-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index /wheels/*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 10001 meshplan
USER 10001
WORKDIR /home/meshplan
EXPOSE 8765
ENTRYPOINT ["meshplan"]
CMD ["--help"]
