#!/usr/bin/env bash
# systemd-analyze on the unit of each service: its syntax, and that what protects it stays.
source "$(dirname "$0")/lib.sh"
need systemd-analyze 'apt-get install systemd'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r deploy/systemd/. "$work"
# verify wants the program to be there; that of this machine stands for it.
sed -i "s#^ExecStart=/opt/sluice/node_modules/node/bin/node#ExecStart=$(command -v node)#" "$work/sluice@.service"

for service in gateway writer query worker migrate; do
  # Warnings count as well, but those on units of this machine.
  problems=$(systemd-analyze verify --recursive-errors=no --man=no "$work/sluice@$service.service" 2>&1) ||
    fail "sluice@$service: $problems"
  if grep -F 'sluice@' <<<"$problems"; then fail "sluice@$service has the warnings above"; fi
done
# 10 is without any protection; a service of the network with none of its own device or privilege stays below 2.
systemd-analyze security --offline=true --threshold=20 "$work/sluice@.service" >"$work/exposure" ||
  fail "$(cat "$work/exposure")"
echo "systemd: $(tail -1 "$work/exposure" | sed 's/^[^O]*//')"
