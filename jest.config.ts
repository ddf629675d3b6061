import type { Config } from 'jest'

const config: Config = {
  testEnvironment: 'node',
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/data/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: { parser: { syntax: 'typescript' }, target: 'es2024', experimental: { keepImportAttributes: true } },
        module: { type: 'es6' },
      },
    ],
  },
  transformIgnorePatterns: ['/node_modules/'],
  globalSetup: './tests/support/engines/start.ts',
  globalTeardown: './tests/support/engines/stop.ts',
  // For what hangs: tests wait for conditions, which take many times as long on a machine that others use, too.
  testTimeout: 600_000,
  // Tests wait for engines that restart and for processes that end: three files at a time keep two cores busy.
  maxWorkers: 3,
  // The modules of each file stay in the process that ran it: with gigabytes of them, each collection of garbage takes
  // a second. For the same reason, package.json starts jest with a flag of V8 that makes collections fewer: 64 MB of new
  // buffers do not cause one by themselves.
  workerIdleMemoryLimit: '1GB',
  // npm run coverage. V8 counts what runs in the processes of jest; services that tests start as processes are not in
  // it.
  coverageProvider: 'v8',
  collectCoverageFrom: ['{packages,services}/**/*.ts', '!**/*.test.ts', '!**/conformance/**'],
  coverageReporters: ['text', 'html'],
}

export default config
