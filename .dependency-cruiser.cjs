// Who may import whom: docs/architecture.md. contracts <- runtime <- adapters <- services <- standalone.
const adapters = 'http|event-log|clickhouse|postgres|redis'
const tests = '\\.test(-support)?\\.ts$|/testing\\.ts$|^tests/|^bench/|conformance\\.ts$'

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'contracts-import-nothing',
      severity: 'error',
      from: { path: '^packages/contracts/', pathNot: tests },
      to: { path: '^(packages/(?!contracts/)|services/)' },
    },
    {
      name: 'runtime-imports-contracts',
      severity: 'error',
      from: { path: '^packages/runtime/', pathNot: tests },
      to: { path: '^(packages/(?!contracts/|runtime/)|services/)' },
    },
    {
      name: 'adapters-do-not-import-each-other',
      severity: 'error',
      from: { path: `^packages/(${adapters})/`, pathNot: tests },
      to: { path: '^(packages/|services/)', pathNot: '^packages/(contracts|runtime|$1)/' },
    },
    {
      name: 'engines-import-runtime',
      severity: 'error',
      from: { path: '^packages/engines/', pathNot: tests },
      to: { path: '^(packages/(?!contracts/|runtime/|engines/)|services/)' },
    },
    {
      name: 'engines-are-for-standalone-and-tests',
      severity: 'error',
      from: { pathNot: `^services/standalone/|^services/migrate/admin-key\\.ts$|^packages/engines/|${tests}` },
      to: { path: '^packages/engines/' },
    },
    {
      name: 'services-do-not-import-services',
      severity: 'error',
      from: { path: '^services/(?!standalone/)([^/]+)/', pathNot: tests },
      to: { path: '^services/', pathNot: '^services/$1/' },
    },
    {
      name: 'standalone-imports-build-and-config-only',
      severity: 'error',
      from: { path: '^services/standalone/', pathNot: tests },
      to: { path: '^services/(?!standalone/)', pathNot: '/(build|config)\\.ts$' },
    },
    {
      name: 'kafkajs-in-event-log',
      severity: 'error',
      from: { pathNot: `^packages/event-log/|^bench/` },
      to: { path: 'node_modules/kafkajs/' },
    },
    {
      name: 'ioredis-in-redis',
      severity: 'error',
      from: { pathNot: '^packages/redis/' },
      to: { path: 'node_modules/(ioredis|rate-limiter-flexible)/' },
    },
    {
      name: 'clickhouse-client-in-clickhouse',
      severity: 'error',
      from: { pathNot: '^packages/clickhouse/' },
      to: { path: 'node_modules/@clickhouse/client/' },
    },
    // engines makes the databases that packages/postgres then opens, and may not import that.
    {
      name: 'pg-in-postgres-and-engines',
      severity: 'error',
      from: { pathNot: '^packages/(postgres|engines)/' },
      to: { path: 'node_modules/pg/' },
    },
    {
      name: 'kysely-in-postgres',
      severity: 'error',
      from: { pathNot: '^packages/postgres/' },
      to: { path: 'node_modules/kysely/' },
    },
    { name: 'not-to-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    { name: 'no-tests-in-products', severity: 'error', from: { pathNot: `${tests}|^docs/` }, to: { path: tests } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.json'],
    },
    moduleSystems: ['es6', 'cjs'],
  },
}
