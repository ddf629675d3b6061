#!/usr/bin/env bash
# Checks the Helm chart: runs the linter, validates the templates of several sets of values by the schemas of
# Kubernetes, checks their contents, and checks that contradicting values are refused. Installs helm and
# kubernetes-validate into .cache once, which takes four minutes of CPU time. This needs Go 1.26 and Python 3 with venv;
# without them, or with an older Go, the check is skipped.
source "$(dirname "$0")/lib.sh"

helm_version=v3.22.0
helm=$PWD/.cache/helm-$helm_version/helm
if ! [ -x "$helm" ]; then
  need go 'apt-get install golang-go'
  echo "Installing helm $helm_version, once…" >&2
  # Without a version of Kubernetes linked in, helm believes that it talks to 1.20, which the chart refuses.
  capabilities=helm.sh/helm/v3/pkg/chartutil
  GOBIN=$(dirname "$helm") nice -n 10 go install -trimpath \
    -ldflags "-X $capabilities.k8sVersionMajor=1 -X $capabilities.k8sVersionMinor=37" "helm.sh/helm/v3/cmd/helm@$helm_version" ||
    { echo "helm $helm_version could not be installed with $(go version | cut -d' ' -f3): it needs Go 1.26 or newer (https://go.dev/dl)" >&2; exit 77; }
fi

tools_of_python kubernetes-validate==1.37.0
tools_of_prometheus
exec "$tools/bin/python" -B deploy/check/helm.py "$helm" "$prometheus_tools/promtool"
