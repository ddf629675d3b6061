import { describe, expect, test } from '@jest/globals'
import joi from 'joi'
import { adminKey, autoRegisterSites } from '@sluice/access/variables'
import { logUrl } from '@sluice/event-log/variables'
import { clickHouseUrl } from '@sluice/event-store/clickhouse/variables'
import { postgresUrl } from '@sluice/postgres/variables'
import { redisUrl } from '@sluice/redis/variables'
import { ConfigError, loadConfig, type Variables } from '@sluice/runtime/config'
import { listenVariables, portMistakes } from '@sluice/runtime/variables'
import { engineVariables } from './config.ts'

const variables = {
  ...listenVariables(8080, '0.0.0.0'),
  SLUICE_LOG_URL: logUrl,
  SLUICE_CLICKHOUSE_URL: clickHouseUrl,
  SLUICE_POSTGRES_URL: postgresUrl,
  SLUICE_REDIS_URL: redisUrl,
  SLUICE_ADMIN_KEY: adminKey,
}

const right = {
  SLUICE_LOG_URL: 'kafka://host:9092/topic',
  SLUICE_CLICKHOUSE_URL: 'https://user:pass@host:8443/sluice',
  SLUICE_POSTGRES_URL: 'postgresql://user:pass@host/sluice',
  SLUICE_REDIS_URL: 'rediss://:pass@host/1',
}

function mistakes(environment: Record<string, string | undefined>, of: Variables = variables): readonly string[] {
  try {
    loadConfig(of, environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
  return []
}

test('an unset variable has its default, and an optional one is undefined', () => {
  expect(loadConfig(variables, right)).toEqual({
    ...right,
    OTEL_TRACES_SAMPLER: 'parentbased_always_on',
    OTEL_TRACES_SAMPLER_ARG: 1,
    SLUICE_HOST: '0.0.0.0',
    SLUICE_PORT: 8080,
    SLUICE_LOG_LEVEL: 'info',
  })
})

test('an empty value counts as unset', () => {
  const empty = { SLUICE_HOST: '', SLUICE_PORT: '', SLUICE_METRICS_PORT: '', SLUICE_ADMIN_KEY: '' }
  expect(loadConfig(variables, { ...right, ...empty })).toEqual(loadConfig(variables, right))
  expect(mistakes({ ...right, SLUICE_POSTGRES_URL: '' })).toHaveLength(1)
})

test('values are converted', () => {
  const config = loadConfig(variables, {
    ...right,
    SLUICE_PORT: '0',
    SLUICE_METRICS_PORT: '65535',
    SLUICE_LOG_LEVEL: 'debug',
  })
  expect(config).toMatchObject({ SLUICE_PORT: 0, SLUICE_METRICS_PORT: 65_535, SLUICE_LOG_LEVEL: 'debug' })
})

test('one error reports all mistakes, each with its variable and the purpose of the variable', () => {
  const environment = {
    SLUICE_LOG_URL: 'amqp://host',
    SLUICE_POSTGRES_URL: 'postgres://host/sluice',
    SLUICE_REDIS_URL: 'memory:',
    SLUICE_PORT: '65536',
    SLUICE_METRICS_PORT: 'ninety',
    SLUICE_LOG_LEVEL: 'loud',
  }
  expect(mistakes(environment)).toStrictEqual([
    'SLUICE_PORT must be less than or equal to 65535 (it is "65536")\n    Port of the HTTP interface.',
    expect.stringMatching(/^SLUICE_METRICS_PORT must be a number \(it is "ninety"\)\n {4}Port of \/metrics/),
    expect.stringMatching(/^SLUICE_LOG_LEVEL must be one of \[debug, info, warn, error\] \(it is "loud"\)\n/),
    expect.stringMatching(/^SLUICE_LOG_URL must start with "kafka:"\n {4}The event log/),
    expect.stringMatching(/^SLUICE_CLICKHOUSE_URL is required\n {4}ClickHouse/),
    expect.stringMatching(/^SLUICE_REDIS_URL must start with "redis:" or "rediss:" or "redis\+sentinel:"\n {4}Redis/),
  ])
  expect(() => loadConfig(variables, environment)).toThrow(/^The configuration has 6 mistakes:\n {2}- SLUICE_PORT /)
  expect(() => loadConfig(variables, { ...right, SLUICE_PORT: 'x' })).toThrow(
    /^The configuration has 1 mistake:\n[^]*\ndocs\/configuration\.md lists all variables\.$/,
  )
})

test.each(['8080.5', '-1', '1e9', 'Infinity', 'x'])('%s is refused as a port', (port) => {
  expect(mistakes({ ...right, SLUICE_PORT: port })).toHaveLength(1)
})

describe('a secret that is wrong is named, never printed', () => {
  const secrets = Object.entries({ ...variables, ...engineVariables }).filter(
    ([, variable]) => 'secret' in variable && variable.secret,
  )

  test('engine URLs, keys and the credentials of S3 are secrets', () => {
    expect(secrets.map(([name]) => name).sort()).toStrictEqual([
      'SLUICE_ADMIN_KEY',
      'SLUICE_BLOBS_URL',
      'SLUICE_CLICKHOUSE_URL',
      'SLUICE_LOG_URL',
      'SLUICE_POSTGRES_URL',
      'SLUICE_REDIS_URL',
      'SLUICE_S3_ACCESS_KEY_ID',
      'SLUICE_S3_SECRET_ACCESS_KEY',
      'SLUICE_SECRETS_KEY',
      'SLUICE_SECRETS_KEY_PREVIOUS',
    ])
  })

  test.each(secrets.filter(([name]) => name.endsWith('_URL')))('%s', (name, variable) => {
    for (const wrong of ['canary', 'ftp://user:canary@host', ' postgres://canary', '//canary']) {
      const [mistake] = mistakes({ [name]: wrong }, { [name]: variable })
      expect(mistake).toContain(`${name} must start with `)
      expect(mistake).not.toContain('canary')
    }
  })

  test('whatever its schema says', () => {
    const schema = joi.string().pattern(/^x/).max(3)
    const [mistake] = mistakes({ SECRET: 'canary' }, { SECRET: { schema, description: 'A secret.', secret: true } })
    expect(mistake).toContain('SECRET')
    expect(mistake).not.toContain('canary')
  })
})

test.each([
  ['SLUICE_LOG_URL', ['kafka://h/t', 'file:data/log']],
  ['SLUICE_CLICKHOUSE_URL', ['http://h', 'https://h', 'file:/data/clickhouse']],
  ['SLUICE_POSTGRES_URL', ['postgres://h', 'postgresql://h', 'file:data/postgres']],
  ['SLUICE_REDIS_URL', ['redis://h', 'rediss://:pass@h:6380/15?prefix=a:', 'redis+sentinel://a,b:1/main', 'memory:']],
  ['SLUICE_BLOBS_URL', ['s3://bucket?region=eu-central-1', 'file:data/blobs']],
] as const)('the engine of %s is embedded by default and can be given by a URL', (name, urls) => {
  expect(mistakes({}, engineVariables)).toStrictEqual([])
  for (const url of urls) expect(loadConfig(engineVariables, { [name]: url })).toHaveProperty(name, url)
})

test.each([
  ['SLUICE_CLICKHOUSE_URL', 'http://'],
  ['SLUICE_CLICKHOUSE_URL', 'http://u:p@host/a/b'],
  ['SLUICE_POSTGRES_URL', 'postgres://u:p@h:notaport/x'],
  ['SLUICE_REDIS_URL', 'redis://'],
  ['SLUICE_REDIS_URL', 'redis://h/sluice'],
  ['SLUICE_ADMIN_KEY', 'short'],
  ['SLUICE_PORT', '1e3'],
])('%s=%s is a mistake of that variable', (name, text) => {
  const [mistake, ...others] = mistakes({ ...right, [name]: text })
  expect(mistake).toMatch(new RegExp(`^${name}:? `))
  expect(others).toEqual([])
})

test('a URL of an embedded engine needs a folder, and the URL memory: has no name', () => {
  expect(mistakes({ SLUICE_POSTGRES_URL: 'file:' }, engineVariables)).toEqual([
    expect.stringMatching(/^SLUICE_POSTGRES_URL names no folder/),
  ])
  expect(mistakes({ SLUICE_REDIS_URL: 'memory:a' }, engineVariables)).toEqual([
    expect.stringMatching(/^SLUICE_REDIS_URL must be memory: and no more/),
  ])
})

test('two ports that are valid by themselves can be refused as a combination', () => {
  const ports = (SLUICE_PORT: number, SLUICE_METRICS_PORT?: number) =>
    portMistakes({ SLUICE_PORT, SLUICE_METRICS_PORT })
  expect(ports(8080)).toEqual([])
  expect(ports(0, 0)).toEqual([])
  expect(ports(64_535)).toEqual([])
  expect(ports(64_536)).toEqual(['SLUICE_METRICS_PORT is required, because SLUICE_PORT + 1000 = 65536 is too high'])
  expect(ports(9000, 9000)).toEqual([expect.stringContaining('must differ')])
})

test('SLUICE_AUTO_REGISTER_SITES is true or false and defaults to true', () => {
  const only = { SLUICE_AUTO_REGISTER_SITES: autoRegisterSites }
  for (const [text, value] of [
    [undefined, true],
    ['', true],
    ['true', true],
    ['false', false],
  ] as const) {
    expect(loadConfig(only, { SLUICE_AUTO_REGISTER_SITES: text })).toStrictEqual({ SLUICE_AUTO_REGISTER_SITES: value })
  }
  for (const text of ['0', 'no', 'off']) {
    expect(mistakes({ SLUICE_AUTO_REGISTER_SITES: text }, only)).toEqual([
      expect.stringMatching(/^SLUICE_AUTO_REGISTER_SITES must be true or false \(it is "\w+"\)\n/),
    ])
  }
})
