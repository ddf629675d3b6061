import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { loadConfig, type Variables } from '@sluice/runtime/config'
import { processes } from './configuration.ts'

interface ComposeService {
  image: string
  command?: string[]
  environment?: Record<string, string>
  secrets?: (string | { source: string; target: string })[]
  depends_on?: Record<string, { condition: string }>
  tmpfs?: string[]
}
interface Compose {
  services: Record<string, ComposeService>
  secrets: Record<string, { file: string }>
}

const folder = fileURLToPath(new URL('../deploy/compose', import.meta.url))
const source = readFileSync(join(folder, 'compose.yaml'), 'utf8')
// What Compose does with ${NAME:-default} where .env sets nothing.
const text = source.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1')
const compose = parse(text, { merge: true }) as Compose
// The section of deploy/README.md about Compose.
const guide =
  readFileSync(join(folder, '../README.md'), 'utf8')
    .split(/^## /m)
    .find((text) => text.includes('./init.sh')) ?? ''
const services = Object.entries(compose.services).filter(([, { image }]) => image.startsWith('sluice:'))

/** The files that Compose mounts into ClickHouse. */
const configurations = readdirSync(join(folder, 'clickhouse'))

let drawn: string
const initialise = (): string => execFileSync(join(drawn, 'init.sh'), { encoding: 'utf8' })

beforeAll(() => {
  drawn = mkdtempSync(join(tmpdir(), 'sluice-compose-'))
  cpSync(join(folder, 'init.sh'), join(drawn, 'init.sh'))
  mkdirSync(join(drawn, 'clickhouse'))
  for (const name of configurations) {
    cpSync(join(folder, 'clickhouse', name), join(drawn, 'clickhouse', name))
    // As a checkout under umask 077 leaves them.
    chmodSync(join(drawn, 'clickhouse', name), 0o600)
  }
  initialise()
})

afterAll(() => {
  rmSync(drawn, { recursive: true, force: true })
})

/** The names of the secrets that a service is given. */
function secretsOf({ secrets = [] }: ComposeService): string[] {
  return secrets.map((secret) => (typeof secret === 'string' ? secret : secret.source))
}

/** The environment of a service, with the values that the files of init.sh hold. */
function environmentOf(name: string, service: ComposeService): Record<string, string> {
  return Object.fromEntries(
    Object.entries(service.environment ?? {}).map(([variable, value]) => {
      if (!variable.endsWith('_FILE')) return [variable, value]
      const secret = value.replace('/run/secrets/', '')
      if (!secretsOf(service).includes(secret)) throw new Error(`${name} is not given the secret ${secret}`)
      return [variable.replace(/_FILE$/, ''), readFileSync(join(drawn, 'secrets', secret), 'utf8').trim()]
    }),
  )
}

/** The variables that a service reads. */
function variablesOf({ command: [process] = [] }: ComposeService): Variables {
  return processes.find(({ command }) => command === `npm run ${process}`)?.variables ?? {}
}

/** The variables that compose.yaml does not pass to a service, each with the reason. */
const notPassed = {
  SLUICE_HOST: 'the image sets it',
  SLUICE_PORT: 'the image sets it',
  SLUICE_METRICS_PORT: 'follows SLUICE_PORT',
  SLUICE_TLS_CERT: 'a proxy ends TLS',
  SLUICE_TLS_KEY: 'a proxy ends TLS',
  SLUICE_S3_ACCESS_KEY_ID: 'files are in a volume; README.md has the way to a bucket',
  SLUICE_S3_SECRET_ACCESS_KEY: 'files are in a volume',
  SLUICE_ADMIN_KEY: '`migrate admin-key` makes it',
  SLUICE_DRAIN_SECONDS: 'stop_grace_period depends on it',
  SLUICE_STOP_SECONDS: 'stop_grace_period depends on it',
  OTEL_SERVICE_NAME: 'all services would have one name',
}

describe('compose.yaml', () => {
  test('runs each service, and the migration before them', () => {
    expect(services.map(([name]) => name).sort()).toStrictEqual(['gateway', 'migrate', 'query', 'worker', 'writer'])
    for (const [name, { depends_on: dependencies }] of services) {
      if (name !== 'migrate')
        expect(dependencies?.migrate).toStrictEqual({ condition: 'service_completed_successfully' })
    }
  })

  test.each(services)('gives %s only variables that it knows, and all that it needs', (name, service) => {
    const variables = variablesOf(service)
    const known = Object.entries(variables).flatMap(([variable, { secret }]) =>
      secret === true ? [variable, `${variable}_FILE`] : [variable],
    )
    expect(known).toStrictEqual(expect.arrayContaining(Object.keys(service.environment ?? {})))
    // Throws with a line for each variable that is missing or wrong.
    loadConfig(variables, environmentOf(name, service))
  })

  test.each(services)('passes to %s every variable that an operator may set', (_name, service) => {
    const passed = Object.keys(service.environment ?? {}).map((variable) => variable.replace(/_FILE$/, ''))
    const missing = Object.keys(variablesOf(service)).filter((variable) => !passed.includes(variable))
    expect(missing.filter((variable) => !(variable in notPassed))).toStrictEqual([])
  })

  test('takes from .env only variables that the guide lists', () => {
    const taken = [...source.matchAll(/\$\{(\w+):-/g)].map(([, variable]) => variable)
    const listed = [...guide.matchAll(/`(\w+)`/g)].map(([, variable]) => variable)
    expect(listed).toStrictEqual(expect.arrayContaining(taken))
  })

  test('mounts each tmpfs at a path, with options that Docker takes', () => {
    const mounts = services.flatMap(([, { tmpfs = [] }]) => tmpfs)
    expect(mounts.length).toBeGreaterThanOrEqual(services.length)
    for (const mount of mounts)
      expect(mount).toMatch(/^\/[a-z/]+(:(size=\d+[kmg]|mode=[0-7]{4})(,(size=\d+[kmg]|mode=[0-7]{4}))*)?$/)
  })

  test('names as secrets the files that init.sh draws', () => {
    const files = readdirSync(join(drawn, 'secrets'))
    for (const [name, { file }] of Object.entries(compose.secrets)) {
      expect(file).toBe(`./secrets/${name}`)
      expect(files).toContain(name)
    }
    for (const service of Object.values(compose.services)) {
      expect(Object.keys(compose.secrets)).toStrictEqual(expect.arrayContaining(secretsOf(service)))
    }
  })
})

test('an update migrates before `up -d` stops the services', () => {
  const [update] = /```sh\n(.*?)```/s.exec(guide.slice(guide.indexOf('To update, ')))?.slice(1) ?? []
  expect(update).toMatch(/compose build && .*compose run --rm migrate && .*compose up -d/)
})

test('folders that the guide makes beside compose.yaml are closed to other users, and ignored by Git', () => {
  const ignored = readFileSync(join(folder, '.gitignore'), 'utf8').split('\n')
  const made = [...guide.matchAll(/mkdir -p (\w+)/g)].map(([, name]) => name)
  expect(made).not.toHaveLength(0)
  for (const name of made) {
    expect(guide).toContain(`mkdir -p ${name} && chmod 700 ${name}`)
    expect(ignored).toContain(`/${name}/`)
  }
})

test('init.sh keeps what it drew, closes the folder to other users, and draws something else each time', () => {
  const password = (): string => readFileSync(join(drawn, 'secrets', 'postgres-password'), 'utf8')
  const first = password()
  expect(first).toMatch(/^[0-9a-f]{48}\n$/)
  expect(initialise()).toBe('')
  expect(password()).toBe(first)
  expect(statSync(join(drawn, 'secrets')).mode & 0o777).toBe(0o700)
  expect(readFileSync(join(drawn, 'secrets', 'clickhouse-password'), 'utf8')).not.toBe(first)
})

test('init.sh makes the configuration of ClickHouse readable by the user of its container', () => {
  const modes = configurations.map((name) => statSync(join(drawn, 'clickhouse', name)).mode & 0o777)
  expect(modes).toStrictEqual([0o644, 0o644])
})
