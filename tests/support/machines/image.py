"""The disk that machines start from: this machine's, but for what a start script would fetch.

The start scripts run as Terraform wrote them. There is no way out of the machines, so packages
are those of this checkout, and `shutdown` ends the machine instead of a system that is not there.
"""

from __future__ import annotations

import sys
from pathlib import Path

_SHUTDOWN = """#!/bin/bash
# shutdown -h now | +MINUTES: ends the machine, now or then.
echo "$*" >> /var/log/shutdowns
case $2 in
  now) kill -TERM 1 ;;
  +*) setsid sh -c "sleep $((60 * ${2#+})); kill -TERM 1" >/dev/null 2>&1 </dev/null & ;;
esac
"""
_PYTHON3 = f"""#!/bin/bash
# Python, whose new environments have what this checkout has, and whose pip installs nothing.
if [[ "$1 $2" != "-m venv" ]]; then exec {sys.executable} "$@"; fi
mkdir -p "$3/bin"
cp /usr/local/lib/rehearsal/python "$3/bin/python"
printf '#!/bin/sh\\nexec {sys.executable} -m ray.scripts.scripts "$@"\\n' > "$3/bin/ray"
chmod 755 "$3"/bin/*
"""
_PYTHON = f"""#!/bin/bash
# pip downloads an empty wheel, and notes what it was told; all else is this checkout's Python.
if [[ "$1 $2" != "-m pip" ]]; then exec {sys.executable} "$@"; fi
echo "$*" >> /var/log/installed
while [[ $# -gt 0 ]]; do
  [[ $1 == -d ]] && echo rehearsed > "$2/rehearsed-1-py3-none-any.whl"
  shift
done
"""
_NOTHING = "#!/bin/sh\nexit 0\n"
_IDLE = tuple((name, _NOTHING) for name in ("apt-get", "systemctl", "snap"))


def made(place: Path) -> Path:
    """The files, in a directory that is laid over a machine's disk."""
    programs = place / "usr" / "local" / "sbin"  # first of everybody's PATH
    programs.mkdir(parents=True)
    for name, text in (("shutdown", _SHUTDOWN), ("python3", _PYTHON3), *_IDLE):
        program = programs / name
        program.write_text(text)
        program.chmod(0o755)
    inside = place / "usr" / "local" / "lib" / "rehearsal"
    inside.mkdir(parents=True)
    (inside / "python").write_text(_PYTHON)
    for directory in ("var/log", "var/lib/node"):
        (place / directory).mkdir(parents=True)
    return place
