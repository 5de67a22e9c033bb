# The package with torch for CPUs, for one machine and for every node of a cluster.
#   docker build -t raypfrl .
#   docker run --rm --shm-size=1g -v "$PWD/results:/home/raypfrl/results" raypfrl raypfrl sweep tune_configs/few_shot.py
# docs/cluster.md, section 1, has the same steps without Docker.

FROM python:3.11-slim-bookworm AS build
# torch's own index has wheels without CUDA, a tenth of the size; the other packages come from the default index
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/raypfrl
ENV PATH=/opt/raypfrl/bin:$PATH
WORKDIR /src
COPY constraints.txt ./
RUN pip install --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY raypfrl ./raypfrl
COPY analysis ./analysis
COPY tune_configs ./tune_configs
RUN pip install -c constraints.txt '.[cluster]'

FROM python:3.11-slim-bookworm
# KubeRay's probes call wget, the cluster launcher's file mounts rsync; their versions do not touch any result
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y rsync wget \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 raypfrl
COPY --from=build /opt/raypfrl /opt/raypfrl
ENV PATH=/opt/raypfrl/bin:$PATH PYTHONUNBUFFERED=1
USER 1000
WORKDIR /home/raypfrl
COPY --chown=raypfrl tune_configs ./tune_configs
RUN mkdir results && raypfrl list
CMD ["raypfrl", "list"]
