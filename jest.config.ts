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
  globalSetup: './tests/engines/start.ts',
  globalTeardown: './tests/engines/stop.ts',
  testTimeout: 30_000,
  maxWorkers: 2,
}

export default config
