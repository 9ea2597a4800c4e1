FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels '.[postgres]'

FROM python:3.11-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index /wheels/*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 10001 meshplan
USER 10001
WORKDIR /home/meshplan
ENTRYPOINT ["meshplan"]
CMD ["--help"]
