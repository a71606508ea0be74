# benchorch in an image; the name after --target chooses torch's build:
#   docker build --target cpu -t benchorch .       docker run --rm -v "$PWD:/runs" benchorch model=mlp
#   docker build --target cuda -t benchorch:cuda . docker run --rm --gpus all -v "$PWD:/runs" benchorch:cuda ...
# Both carry g++, which inductor compiles with. A container sees its host's other load, and cannot
# change its clocks: `benchorch doctor` shows what a measurement in it is worth.
FROM python:3.11-slim-bookworm AS base
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 bench
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scripts/install_torch.py scripts/
COPY src src
COPY conf conf
COPY recipes recipes
COPY infra infra

FROM base AS cuda
RUN python scripts/install_torch.py --build cuda --constraints constraints.txt \
    && pip install --no-cache-dir --constraint constraints.txt '.[all,nvidia]'
USER 1000
WORKDIR /runs
ENTRYPOINT ["benchorch"]

FROM base AS cpu
RUN python scripts/install_torch.py --build cpu --constraints constraints.txt \
    && pip install --no-cache-dir --constraint constraints.txt '.[all]'
USER 1000
WORKDIR /runs
ENTRYPOINT ["benchorch"]
