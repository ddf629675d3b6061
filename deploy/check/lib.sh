# Read by the checks of deploy/. Each check ends with 0 when all is well, 1 when something is wrong, and 77 when a tool is
# missing, which it names with the command that installs it.
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

# tools_of_python <package>...: a virtual environment in .cache with these programs, its folder in $tools
tools_of_python() {
  tools=$PWD/.cache/deploy-tools
  python3 -c 'import ensurepip, venv' 2>/dev/null || {
    echo 'Python 3 with venv is missing: apt-get install python3-venv' >&2
    exit 77
  }
  [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
  # pip looks at what is installed first, and asks the registry only for what is not.
  "$tools/bin/pip" install --quiet --disable-pip-version-check "$@" || {
    echo "$* could not be installed with pip" >&2
    exit 77
  }
}
