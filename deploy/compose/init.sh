#!/bin/sh
# Generates the passwords of the engines and the key that encrypts secrets, in the files that compose.yaml names. It may
# be run again: it never overwrites a file.
set -eu
cd "$(dirname "$0")"
command -v openssl >/dev/null || { echo 'init.sh needs openssl: install it' >&2; exit 1; }

# Other users of this machine can't open the folder. The files themselves are readable by everybody, because Docker
# keeps their permissions in the containers, and no container runs as the user who calls this script.
mkdir -p secrets
chmod 700 secrets

# The container of ClickHouse reads these files, too, also if the checkout was made under a umask such as 077.
chmod a+r clickhouse/*.xml

# random_password: 48 hexadecimal digits, which need no escaping in URLs and configuration files
random_password() {
  od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

# keep <file> <text>: writes the file unless it exists; an interrupted script leaves no incomplete file
keep() {
  if [ -e "secrets/$1" ]; then
    return
  fi
  printf '%s\n' "$2" >"secrets/$1.new"
  chmod 444 "secrets/$1.new"
  mv "secrets/$1.new" "secrets/$1"
  echo "secrets/$1 is written"
}

# A password is generated once; every other file with it is created from the first file.
keep postgres-password "$(random_password)"
keep postgres-url "postgres://sluice:$(cat secrets/postgres-password)@postgres:5432/sluice"

keep clickhouse-password "$(random_password)"
keep clickhouse-url "http://sluice:$(cat secrets/clickhouse-password)@clickhouse:8123/sluice"
# ClickHouse gets only the hash.
hash=$(tr -d '\n' <secrets/clickhouse-password | openssl dgst -sha256 -r | cut -d ' ' -f 1)
keep clickhouse-user.xml "<clickhouse><users><sluice><password_sha256_hex>$hash</password_sha256_hex></sluice></users></clickhouse>"

keep redis-password "$(random_password)"
keep redis-url "redis://:$(cat secrets/redis-password)@redis:6379"
keep redis.conf "requirepass $(cat secrets/redis-password)"

# Encrypts the secrets of webhooks and alert rules in Postgres. Keep a copy apart from the backups: without it, those
# secrets are lost.
keep secrets-key "$(openssl rand -base64 32)"
