# Sourced by the checks of deploy/. A check ends with 0 when it has found no mistake, with 1 when it has found one, and
# with 77 when a tool is missing; it then prints the name of the tool and the command that installs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# The Node of the lock file: the machine's own may be older.
export PATH="$PWD/node_modules/.bin:$PATH"

# need <program> <how to install it>
need() {
  command -v "$1" >/dev/null && return
  echo "$1 is missing: $2" >&2
  exit 77
}

# fail <sentence>
fail() {
  echo "$*" >&2
  exit 1
}

# tools_of_prometheus: Debian's Prometheus, unpacked into .cache and not installed; its programs in $prometheus_tools
tools_of_prometheus() {
  prometheus_tools=$PWD/.cache/prometheus/usr/bin
  [ -x "$prometheus_tools/promtool" ] && return
  mkdir -p .cache/prometheus
  (cd .cache/prometheus && rm -f ./*.deb && { apt-get download prometheus || { apt-get update -qq && apt-get download prometheus; }; }) ||
    { echo "promtool is missing, and apt-get can't download Debian's package prometheus" >&2; exit 77; }
  dpkg -x .cache/prometheus/*.deb .cache/prometheus
}

# tools_of_python <package>...: a virtual environment in .cache with these programs, its folder in $tools
tools_of_python() {
  tools=$PWD/.cache/deploy-tools
  python3 -c 'import ensurepip, venv' 2>/dev/null || {
    echo 'Python 3 with venv is missing: apt-get install python3-venv' >&2
    exit 77
  }
  [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
  # pip first looks at the installed packages, and asks the registry only for missing ones.
  "$tools/bin/pip" install --quiet --disable-pip-version-check "$@" || {
    echo "$* could not be installed with pip" >&2
    exit 77
  }
}
