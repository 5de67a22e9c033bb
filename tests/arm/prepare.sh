#!/usr/bin/env bash
# An aarch64 Python with what the compiled oracle needs, in the folder given, for tests/arm/test_arm.py; some 200 MB.
# Debian or Ubuntu with qemu-user-static. Nothing outside the folder is changed.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$here/.venv/bin/python}
mkdir -p "$out/apt/lists/partial" "$out/apt/debs" "$out/root" "$out/site"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$out/apt/lists"
    -o "Dir::Cache=$out/apt" -o Dir::State::status=/dev/null)
"${apt[@]}" update
(cd "$out/apt/debs" && "${apt[@]}" download libc6 libgcc-s1 libstdc++6 libexpat1 zlib1g libssl3 libffi8 libbz2-1.0 \
    liblzma5 libuuid1 libtinfo6 libncursesw6 libcrypt1 libsqlite3-0 python3.11-minimal libpython3.11-minimal \
    libpython3.11-stdlib)
for deb in "$out"/apt/debs/*.deb; do dpkg -x "$deb" "$out/root"; done
"$python" -m pip install -q --target "$out/site" --upgrade --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
    -c "$here/constraints.txt" numpy numba gymnasium pydantic filelock pyyaml
rm -rf "$out/apt"
