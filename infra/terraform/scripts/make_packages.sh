#!/bin/bash
# make_packages.sh KIND-DIGEST: the packages of a lock, from the indexes to the stack's bucket, once.
set -Eeuo pipefail
lock=$1 kind=${1%-*}
machine=${kind#*-} place=/var/tmp/made-$1 other=()
node() { python3 /usr/local/lib/benchorch/node.py "$@"; }

rm -rf "$place"
mkdir -p "$place/got"
node fetch "packages/$lock/lock.txt" "$place/lock.txt"
if [[ $machine != $(uname -m) ]]; then # the wheels of another kind of machine
  for minor in {5..39}; do other+=(--platform "manylinux_2_${minor}_$machine"); done
  other+=(--platform "manylinux2014_$machine" --implementation cp --abi cp312 --abi abi3 --abi none)
fi

# What comes without a wheel is built here, by builders of the same lock.
awk '/^[^ #]/ { wanted = /^(setuptools|wheel|wheel-stub)==/ } wanted' "$place/lock.txt" > "$place/builders.txt"
python3 -m venv "$place/builder"
pip() { "$place/builder/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -q --no-deps --require-hashes -r "$place/builders.txt"
pip download -q --no-deps --no-build-isolation --require-hashes "${other[@]}" -d "$place/got" -r "$place/lock.txt"
find "$place/got" -name '*.tar.gz' -print0 |
  while IFS= read -r -d '' source; do
    pip wheel -q --no-deps --no-build-isolation -w "$place/got" "$source"
  done
node keep "packages/$lock" "$place/got"
rm -rf "$place"
