#!/usr/bin/env bash
# Creates a base image, builds the image on it from a checkout that only its owner can read, and runs it as PID 1 and
# user 65532 with a read-only root folder: it must become healthy, and end with 0 on SIGTERM. Prints the size of the
# image. Takes some minutes. Needs root, mmdebstrap, buildah and bubblewrap (Debian 12 has them), Node with npm, and 6 GB
# of disk.
#
#   deploy/check/image.sh                 sluice
#   deploy/check/image.sh --standalone    sluice-standalone as well
source "$(dirname "$0")/lib.sh"
need mmdebstrap 'apt-get install mmdebstrap'
need buildah 'apt-get install buildah'
need bwrap 'apt-get install bubblewrap'
need curl 'apt-get install curl'
need pgrep 'apt-get install procps'
need setpriv 'apt-get install util-linux'
need npm 'install Node >= 18 with npm'

work=$(mktemp -d)
chmod 755 "$work"
sandbox=
cleanup() {
  status=$?
  if [ -n "$sandbox" ]; then kill -KILL "$sandbox" 2>/dev/null || true; fi
  if [ "$status" -ne 0 ] && [ -s "$work/output" ]; then cat "$work/output" >&2; fi
  # The build may have mounted other file systems in this folder; --one-file-system does not delete files on them.
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap cleanup EXIT

# In many containers, a process can neither mount an overlay nor create a network: vfs and chroot need neither.
store() {
  buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

suite=bookworm

# make_base <name> <further package>...: a base image with the libraries of Debian and without a shell, like distroless
make_base() {
  echo "Making the base $1…"
  packages=base-files,libc6,libstdc++6,libgcc-s1,ca-certificates,netbase,tzdata
  mmdebstrap --quiet --variant=extract --mode=root --include="$packages${2:+,$2}" "$suite" "$work/base.tar"
  printf 'FROM scratch\nADD base.tar /\n' >"$work/Base"
  store bud --quiet --isolation chroot -f "$work/Base" -t "localhost/$1:1" "$work" >/dev/null
  rm "$work/base.tar"
}

# The base of the build stage: a shell, and the host's Node and npm.
echo 'Making the base of the build…'
mkdir "$work/build-base"
mmdebstrap --quiet --variant=essential --mode=root --include=libstdc++6,ca-certificates "$suite" "$work/build-base"
mkdir -p "$work/build-base/usr/local/lib/node_modules"
cp "$(node -p 'process.execPath')" "$work/build-base/usr/local/bin/node"
# The program `npm` is a link to bin/npm-cli.js of its package.
cp -r "$(dirname "$(realpath "$(command -v npm)")")/.." "$work/build-base/usr/local/lib/node_modules/npm"
for program in npm npx; do
  ln -s "../lib/node_modules/npm/bin/$program-cli.js" "$work/build-base/usr/local/bin/$program"
done
# A host behind a proxy may have its own certificate authority.
mkdir -p "$work/build-base/etc/ssl/certs"
cp "${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}" "$work/build-base/etc/ssl/certs/ca-certificates.crt"
printf '%s\n' 'FROM scratch' 'COPY build-base /' \
  'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt' >"$work/BuildBase"
store bud --quiet --isolation chroot -f "$work/BuildBase" -t localhost/build-base:1 "$work" >/dev/null
rm -rf "$work/build-base"

# The build's context as a checkout under umask 077 is.
mkdir "$work/context"
tar --exclude=node_modules --exclude=./.git --exclude=./.cache -cf - . | tar -C "$work/context" -xf -
chmod -R go-rwx "$work/context"

# build <target> <base>: leaves the root folder of the image's file system in $root
build() {
  echo "Building $1…"
  store bud --quiet --format docker --isolation chroot -f deploy/Dockerfile --target "$1" -t "localhost/$1:1" \
    --build-arg "BASE=localhost/$2:1" --build-arg BUILD_BASE=localhost/build-base:1 "$work/context" >/dev/null
  root=$(store mount "$(store from --pull-never "localhost/$1:1")")
  # The user of the image must be able to reach this folder.
  folder=$root
  until [ "$folder" = "$work" ]; do
    folder=$(dirname "$folder")
    chmod o+x "$folder"
  done
  archive=$(tar --one-file-system -C "$root" -cf - . | gzip -6 | wc -c)
  echo "$1: $(du -s --block-size=1M --one-file-system "$root" | cut -f1) MiB, $((archive / 1048576)) MiB compressed"
}

port=18080

# start <option of bwrap>... -- <argument of the image>...: runs the image in $root as its user, with a root folder that
# can't be written. bwrap maps the process ids: the image's process is PID 1 in there, and $process out here.
start() {
  options=()
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  shift
  setpriv --reuid 65532 --regid 65532 --clear-groups \
    bwrap --ro-bind "$root" / --tmpfs /tmp --proc /proc --dev /dev --unshare-pid --as-pid-1 --chdir /app --clearenv \
    --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv SLUICE_HOST 127.0.0.1 --setenv SLUICE_PORT "$port" "${options[@]}" \
    node --disable-warning=ExperimentalWarning /app/deploy/start.mjs "$@" >"$work/output" 2>&1 &
  sandbox=$!
}

# await_health <path>: the health check of the image itself, within two minutes
await_health() {
  for _ in $(seq 240); do
    if SLUICE_PORT=$port node deploy/healthcheck.mjs "$1" 2>"$work/health"; then return; fi
    kill -0 "$sandbox" 2>/dev/null || fail "$target ended before it was healthy"
    sleep 0.5
  done
  fail "$target is not healthy: $(cat "$work/health")"
}

# stop: SIGTERM to PID 1 of the sandbox, which must end with 0
stop() {
  process=$(pgrep --parent "$sandbox")
  grep -q "^NSpid:.*[[:space:]]1$" "/proc/$process/status" || fail "$target is not PID 1"
  grep -q '^Uid:[[:space:]]65532[[:space:]]65532' "/proc/$process/status" || fail "$target does not run as user 65532"
  tr '\0' ' ' <"/proc/$process/cmdline" | grep -q -- '--max-semi-space-size=16' || fail "$target runs without the flags of package.json"
  kill -TERM "$process"
  code=0
  wait "$sandbox" || code=$?
  sandbox=
  [ "$code" -eq 0 ] || fail "$target ended with $code after SIGTERM"
}

target=sluice
make_base base
build "$target" base
for absent in services/standalone packages/engines packages/dashboard/src; do
  [ ! -e "$root/app/$absent" ] || fail "$target has /app/$absent"
done
[ -z "$(find "$root/app/node_modules/.pnpm" -maxdepth 1 -name '*chdb*' -print -quit)" ] || fail "$target has ClickHouse"
[ -z "$(find "$root/app" -name '*.test.ts' -not -path '*/node_modules/*' -print -quit)" ] || fail "$target has tests"
[ "$(stat -c %u:%g "$root/var/lib/sluice")" = 65532:65532 ] || fail 'a volume for data would belong to root'
store inspect --type image "localhost/$target:1" | grep -q healthcheck.mjs || fail "$target has no health check"
# The services start without their engines, and wait for them.
away=(--setenv SLUICE_LOG_URL kafka://127.0.0.1:1/events --setenv SLUICE_POSTGRES_URL postgres://a:b@127.0.0.1:1/sluice
  --setenv SLUICE_REDIS_URL redis://127.0.0.1:1)
unwritable=$(setpriv --reuid 65532 --regid 65532 --clear-groups bwrap --ro-bind "$root" / --dev /dev \
  /usr/local/bin/node -p 'try { fs.writeFileSync("/app/file", "") } catch (error) { error.code }')
[ "$unwritable" = EROFS ] || fail "the root folder is not read-only: $unwritable"
# Node's debug output tells where each module comes from.
start "${away[@]}" --setenv NODE_COMPILE_CACHE /app/.cache/node --setenv NODE_DEBUG_NATIVE COMPILE_CACHE -- gateway
await_health /healthz
stop
grep -q 'code cache .* was accepted' "$work/output" || fail "$target does not use its cache of compiled modules"
if grep -q 'no transpile cache' "$work/output"; then fail "the cache of $target lacks modules"; fi
echo "$target: gateway ran as PID 1 and user 65532 on a read-only root, and ended with 0"

if [ "${1:-}" = --standalone ]; then
  target=sluice-standalone
  # Programs of Postgres call each other through /bin/sh.
  make_base base-with-shell dash
  build "$target" base-with-shell
  mkdir "$work/data"
  chown 65532:65532 "$work/data"
  start --bind "$work/data" /var/lib/sluice --setenv SLUICE_DATA_DIR /var/lib/sluice -- standalone
  await_health /readyz
  key=$(grep -o 'svc_prod_[A-Za-z0-9_]*' "$work/output" | head -1)
  status=$(curl -s -o "$work/answer" -w '%{http_code}' "http://127.0.0.1:$port/collect" -H "Authorization: Bearer $key" \
    -H 'Content-Type: application/json' -d '{"site_id":"image","event_type":"page_view"}')
  [ "$status" = 202 ] || fail "$target answered $status to an event: $(cat "$work/answer")"
  stop
  echo "$target: took an event on its embedded engines as user 65532 on a read-only root, and ended with 0"
fi
