#!/usr/bin/env bash
# Validates compose.yaml by the schema of the Compose specification, and the configuration of ClickHouse as XML. The
# test docs/compose.test.ts checks that the services get variables that they know.
source "$(dirname "$0")/lib.sh"
need go 'apt-get install golang-go'
tools_of_python jsonschema==4.26.0 pyyaml==6.0.3

# The schema comes with the library that Docker Compose reads its files with. `go mod download` checks it against the
# public database of checksums.
version=v2.16.2
module=$(cd "$(mktemp -d)" && go mod download -json "github.com/compose-spec/compose-go/v2@$version") ||
  { echo "compose-go $version could not be downloaded: $module" >&2; exit 77; }
schema=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$module")/schema/compose-spec.json

"$tools/bin/python" - "$schema" deploy/compose/compose.yaml <<'PYTHON'
import json, re, sys
import jsonschema, yaml

schema = json.load(open(sys.argv[1]))
# Substitutes variables as Compose does before it checks the types, with an empty .env.
text = re.sub(r'\$\{\w+:-([^}]*)\}', r'\1', open(sys.argv[2]).read())
problems = sorted(jsonschema.Draft7Validator(schema).iter_errors(yaml.safe_load(text)), key=lambda problem: list(problem.path))
for problem in problems:
    print(f"compose.yaml: {'.'.join(map(str, problem.path))}: {problem.message}", file=sys.stderr)
sys.exit(1 if problems else 0)
PYTHON

for file in deploy/compose/clickhouse/*.xml; do
  "$tools/bin/python" -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$file"
done
echo 'compose: compose.yaml follows the specification'
