#!/bin/sh
# Make a virtual environment with the first Python that is new enough and complete.
# usage: scripts/make_venv.sh DIRECTORY [PYTHON]
set -eu
directory=$1
asked=${2:-}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
complete() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

incomplete=""
for python in ${asked:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
    new_enough "$python" || continue
    if complete "$python"; then
        echo "Making $directory with $("$python" --version) ..."
        exec "$python" -m venv "$directory"
    fi
    incomplete=${incomplete:-$python}
done

if [ -n "$incomplete" ]; then
    echo "$incomplete is new enough, but its venv module is missing." >&2
    echo "On Debian or Ubuntu: sudo apt install $incomplete-venv" >&2
else
    found=$("${asked:-python3}" --version 2>&1) || found="no ${asked:-python3}"
    echo "benchorch needs Python 3.11 or newer; found: $found." >&2
    echo "Install one, or name it: make install PYTHON=/path/to/python3.12" >&2
fi
exit 2
