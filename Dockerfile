# benchorch in an image; the name after --target chooses torch's build:
#   docker build --target cpu -t benchorch .       docker run --rm -v "$PWD:/runs" benchorch model=mlp
#   docker build --target cuda -t benchorch:cuda . docker run --rm --gpus all -v "$PWD:/runs" benchorch:cuda ...
# Where your user is not 1000, add --user "$(id -u):$(id -g)": results are written as that user.
# Both carry g++, which inductor compiles with. A container sees its host's other load, and cannot
# change its clocks: `benchorch doctor` shows what a measurement in it is worth.
FROM python:3.11-slim-bookworm AS base
# Any user may write to /runs and the home; USER names it where it has no entry of its own.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --home-dir /bench --uid 1000 bench \
    && install --directory --mode 1777 /runs \
    && chmod 1777 /bench
ENV HOME=/bench USER=bench PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY constraints.txt ./
COPY scripts/install_torch.py scripts/

FROM base AS cuda
RUN python scripts/install_torch.py --build cuda --constraints constraints.txt
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[all,nvidia]'
USER 1000
WORKDIR /runs
ENTRYPOINT ["benchorch"]

FROM base AS cpu
RUN python scripts/install_torch.py --build cpu --constraints constraints.txt
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[all]'
USER 1000
WORKDIR /runs
ENTRYPOINT ["benchorch"]
