#!/usr/bin/env bash
# Runs $RECIPE and gates it against the folder $HISTORY; with RECORD=true the run joins the folder.
# A session that is worse (a regression, or a trial that newly fails, disagrees or is missing), or
# that could not be judged, does not join, so that the next one fails, too, unless ACCEPT=true makes
# it the new state.
# A first session, which has nothing to be compared with, passes. Exit codes are benchorch gate's;
# 4 (cannot tell) passes with a line unless STRICT=true, and a failed trial never passes.
set -euo pipefail
read -r -a benchorch <<<"${BENCHORCH:-benchorch}"
read -r -d '' -a recipe <<<"${RECIPE:?the recipe to run}" || true  # all lines: none ends in NUL
history="${HISTORY:-benchorch-history}"
summary="${GITHUB_STEP_SUMMARY:-benchorch-summary.md}"
run="$(mktemp -d)/run"

ran=0
"${benchorch[@]}" run "${recipe[@]}" recorder=none "hydra.run.dir=$run" || ran=$?
[ -f "$run/results.jsonl" ] || exit $((ran ? ran : 1))
mkdir -p "$history"
code=0
options=()
[ -n "${METRIC:-}" ] && options+=(--metric "$METRIC")
"${benchorch[@]}" gate --baseline "$history" --candidate "$run" --across host --allow-first \
  --max-regression "${LIMIT:-5%}" --output benchorch-gate.md ${options[@]+"${options[@]}"} || code=$?
[ -f benchorch-gate.md ] && cat benchorch-gate.md >>"$summary"
worse=false
case $code in
  0 | 4) ;;
  3) if [ "$ran" != 0 ] || grep -qs '^- missing: ' benchorch-gate.md; then worse=true; fi ;;
  *) worse=true ;;  # 1: a regression; 2: it was not judged
esac
if [ "${RECORD:-false}" = true ]; then
  if [ "$worse" = true ] && [ "${ACCEPT:-false}" != true ]; then
    echo "This session does not join the history; ACCEPT=true makes it the new state."
  else
    "${benchorch[@]}" history "$run" --across host --output "$history"
  fi
fi
if [ "$code" = 4 ] && [ "${STRICT:-false}" = true ]; then
  code=1
elif [ "$code" = 4 ]; then
  echo "A regression is neither shown nor ruled out; STRICT=true makes that a failure."
  code=0
fi
[ "$code" != 0 ] || code=$ran
exit "$code"
