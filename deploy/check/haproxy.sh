#!/usr/bin/env bash
# Runs HAProxy's own check of the configuration, where any warning is an error, and sends requests through it.
source "$(dirname "$0")/lib.sh"
PATH="$PATH:/usr/sbin"
need haproxy 'apt-get install haproxy'

problems=$(haproxy -c -dW -f deploy/haproxy/haproxy.cfg 2>&1) || fail "haproxy.cfg: $problems"
node deploy/check/long-addresses.mjs
echo 'haproxy: the configuration is valid, and passes on the longest addresses'
