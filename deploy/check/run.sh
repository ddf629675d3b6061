#!/usr/bin/env bash
# Checks everything in deploy/ except the images (image.sh checks them, and takes minutes), with one script for each
# topic. Continues after a failure, names missing tools, and ends with 1 if a check failed. In CI, a missing tool is a
# failure.
#
#   deploy/check/run.sh            all topics
#   deploy/check/run.sh compose    one of them
source "$(dirname "$0")/lib.sh"
shopt -s nullglob

topics=("$@")
if [ "${#topics[@]}" -eq 0 ]; then
  for file in deploy/check/*.sh; do
    topic=$(basename "$file" .sh)
    case $topic in lib | run | image) ;; *) topics+=("$topic") ;; esac
  done
fi

passed=() failed=() skipped=()
for topic in "${topics[@]}"; do
  [ -f "deploy/check/$topic.sh" ] || fail "There is no deploy/check/$topic.sh: name a topic of that folder."
  code=0
  bash "deploy/check/$topic.sh" || code=$?
  case $code in
    0) passed+=("$topic") ;;
    77) skipped+=("$topic") ;;
    *) failed+=("$topic") ;;
  esac
done

echo "deploy: ${#passed[@]} passed (${passed[*]}), ${#failed[@]} failed (${failed[*]}), ${#skipped[@]} left out (${skipped[*]})"
[ "${#failed[@]}" -eq 0 ] || exit 1
[ "${#skipped[@]}" -eq 0 ] || [ "${CI:-}" != true ] || fail 'CI must run all checks: install what is missing.'
