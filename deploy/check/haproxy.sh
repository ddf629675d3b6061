#!/usr/bin/env bash
# Runs HAProxy's own check of the configuration. Any warning is an error.
source "$(dirname "$0")/lib.sh"
PATH="$PATH:/usr/sbin"
need haproxy 'apt-get install haproxy'

problems=$(haproxy -c -dW -f deploy/haproxy/haproxy.cfg 2>&1) || fail "haproxy.cfg: $problems"
echo 'haproxy: the configuration is valid'
