#!/usr/bin/env bash
# Checks deploy/prometheus and deploy/grafana with Debian's Prometheus, which is unpacked into .cache and not installed:
# the rules, their tests, the names of the metrics, and each query of the dashboards on a running Sluice.
source "$(dirname "$0")/lib.sh"

tools_of_prometheus
promtool=$prometheus_tools/promtool

"$promtool" check rules deploy/prometheus/rules.yaml deploy/prometheus/alerts.yaml
"$promtool" test rules deploy/prometheus/*.test.yaml

# Each alert names its runbook, and has a case that fires and one that does not. The group of the freshness objective is
# evaluated as often as its tests say: promtool ignores the interval of a group.
node - <<'JS'
const { readFileSync, globSync } = require('node:fs')
const alerts = readFileSync('deploy/prometheus/alerts.yaml', 'utf8')
const tests = globSync('deploy/prometheus/*.test.yaml').map((file) => readFileSync(file, 'utf8')).join('\n')
const runbooks = readFileSync('docs/runbooks.md', 'utf8')
const anchors = new Set([...runbooks.matchAll(/^#+ (.+)$/gm)].map(([, title]) => title.toLowerCase().replace(/[^\w -]/g, '').replaceAll(' ', '-')))
const mistakes = []
const group = readFileSync('deploy/prometheus/rules.yaml', 'utf8').split('- name: ').find((text) => text.startsWith('sluice-slo-freshness\n'))
const interval = /^ +interval: (\S+)$/m.exec(group)?.[1]
if (!readFileSync('deploy/prometheus/freshness.test.yaml', 'utf8').includes(`\nevaluation_interval: ${interval}\n`)) {
  mistakes.push(`rules.yaml: the interval of sluice-slo-freshness is ${interval}, which freshness.test.yaml does not test`)
}
for (const text of alerts.split('- alert: ').slice(1)) {
  const name = text.split('\n', 1)[0]
  const anchor = /runbook_url: docs\/runbooks\.md#(\S+)/.exec(text)?.[1]
  if (!anchors.has(anchor)) mistakes.push(`${name}: docs/runbooks.md has no heading #${anchor}`)
  for (const part of ['summary:', 'description:', 'severity:']) if (!text.includes(part)) mistakes.push(`${name} has no ${part}`)
  const cases = tests.split(/\n {2}- interval/).filter((each) => each.includes(`alertname: ${name}\n`))
  if (!cases.some((each) => each.includes('exp_alerts'))) mistakes.push(`${name}: no test lets it fire`)
  if (!cases.some((each) => !each.includes('exp_alerts'))) mistakes.push(`${name}: no test lets it be quiet`)
}
if (mistakes.length > 0) {
  console.error(mistakes.join('\n'))
  process.exit(1)
}
JS

node deploy/check/panels.mjs "$prometheus_tools/prometheus" .cache/scrape.prom
# The names of Node's own metrics are those of prom-client.
grep -vE '^(# (HELP|TYPE) )?(nodejs|process)_' .cache/scrape.prom | "$promtool" check metrics
echo "Rules, alerts, metrics and dashboards are in order."
