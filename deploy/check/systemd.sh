#!/usr/bin/env bash
# Runs systemd-analyze on the unit of each service: checks the syntax, and that the protection does not get weaker.
source "$(dirname "$0")/lib.sh"
need systemd-analyze 'apt-get install systemd'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r deploy/systemd/. "$work"
# `verify` requires that the program exists, so the Node of this machine takes its place.
sed -i "s#^ExecStart=/opt/sluice/node_modules/node/bin/node#ExecStart=$(command -v node)#" "$work"/sluice*.service

for unit in sluice@{gateway,writer,query,worker,migrate} sluice-standalone; do
  # Warnings count as mistakes, except warnings about other units of this machine.
  problems=$(systemd-analyze verify --recursive-errors=no --man=no "$work/$unit.service" 2>&1) || fail "$unit: $problems"
  if grep -F 'sluice' <<<"$problems"; then fail "$unit has the warnings above"; fi
  # A service that starts before the machine's clock is set would begin with a wrong time.
  grep -Eq '^After=(.* )?time-sync\.target( |$)' "$work/${unit/@*/@}.service" || fail "$unit is not after time-sync.target"
done
# 10 means no protection. A network service without devices and privileges can reach a value below 2. The embedded
# engines need more system calls.
systemd-analyze security --offline=true --threshold=35 "$work/sluice-standalone.service" >"$work/exposure" ||
  fail "$(cat "$work/exposure")"
systemd-analyze security --offline=true --threshold=20 "$work/sluice@.service" >"$work/exposure" ||
  fail "$(cat "$work/exposure")"
echo "systemd: $(tail -1 "$work/exposure" | sed 's/^[^O]*//')"
