import { readFile } from 'node:fs/promises'
import { describe, expect, test } from '@jest/globals'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { variables as migrate } from '@sluice/admin/migrate/config'
import { variables as gateway } from '@sluice/gateway/config'
import { variables as query } from '@sluice/query/config'
import { loadConfig, type Variables } from '@sluice/runtime/config'
import { variables as worker } from '@sluice/worker/config'
import { variables as writer } from '@sluice/writer/config'

// What can be checked without helm; deploy/check/helm.sh checks what the chart renders.
const chart = new URL('../../deploy/helm/sluice/', import.meta.url)
const read = (file: string): Promise<string> => readFile(new URL(file, chart), 'utf8')
const processes: Record<string, Variables> = { gateway, writer, query, worker, migrate }

interface Schema {
  $ref?: string
  type?: string
  properties?: Record<string, Schema>
  additionalProperties?: unknown
  items?: Schema
  $defs?: Record<string, Schema>
}
type Values = Record<string, unknown>

const schema = JSON.parse(await read('values.schema.json')) as Schema
const text = await read('values.yaml')
const defaults = parse(text) as Values
const known = JSON.parse(await read('files/variables.json')) as Record<string, Record<string, { secret: boolean }>>

function resolved(node: Schema): Schema {
  const name = node.$ref?.replace('#/$defs/', '')
  const found = name === undefined ? node : schema.$defs?.[name]
  if (!found) throw new Error(`values.schema.json has no ${node.$ref ?? ''}`)
  return found
}

/** Paths of all properties that the schema names, apart from those within lists. */
function pathsOfSchema(node: Schema, path = ''): string[] {
  return Object.entries(resolved(node).properties ?? {}).flatMap(([name, child]) => [
    `${path}${name}`,
    ...pathsOfSchema(child, `${path}${name}.`),
  ])
}

function at(path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (value as Values | undefined)?.[name], defaults)
}

describe('values', () => {
  const ajv = new Ajv({ allErrors: true, allowUnionTypes: true })
  const validate = ajv.compile(schema)

  test('the defaults are valid', () => {
    validate(defaults)
    expect(validate.errors ?? []).toStrictEqual([])
  })

  test('values.yaml has every value of the schema', () => {
    // Helm gives every chart a `global`. Resources may be anything that Kubernetes counts.
    const paths = pathsOfSchema(schema).filter((path) => path !== 'global')
    expect(paths.length).toBeGreaterThan(80)
    expect(paths.filter((path) => at(path) === undefined)).toStrictEqual([])
  })

  test('the schema refuses a value that values.yaml does not have, at every level', () => {
    const objects = ['', ...pathsOfSchema(schema)].filter((path) => {
      const value = path === '' ? defaults : at(path)
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    })
    // Maps of names that users choose.
    const free = /(^|\.)(global|settings|requests|limits|annotations|labels|podAnnotations|podLabels|nodeSelector)$/
    const open = objects.filter((path) => {
      const changed = structuredClone(defaults)
      const names = path === '' ? [] : path.split('.')
      const parent = names.reduce<Values>((value, name) => value[name] as Values, changed)
      parent.unknownValue = {}
      return !free.test(path) && validate(changed)
    })
    expect(open).toStrictEqual([])
  })

  test.each(['all', 'ingress', 'small'])('ci/%s-values.yaml names values that there are', async (name) => {
    const over = parse(await read(`ci/${name}-values.yaml`)) as Values
    expect(validate(merged(defaults, over)) || validate.errors).toBe(true)
  })

  test('each top-level value has a comment above it', () => {
    const lines = text.split('\n')
    const bare = Object.keys(defaults).filter((name) => {
      const line = lines.findIndex((each) => each.startsWith(`${name}:`))
      return lines[line - 1]?.startsWith('#') !== true
    })
    // These values share one comment.
    expect(bare).toStrictEqual(['podLabels', 'nodeSelector', 'tolerations', 'priorityClassName'])
  })
})

describe('environment variables', () => {
  test('every variable of values, templates and README is one of a process of the chart', async () => {
    const files = [
      'values.yaml',
      'README.md',
      'templates/validate.yaml',
      'templates/_helpers.tpl',
      'templates/NOTES.txt',
    ]
    const named = await Promise.all(
      [...files, 'templates/networkpolicy.yaml', 'ci/all-values.yaml'].map(async (file) =>
        [...(await read(file)).matchAll(/\bSLUICE_[A-Z0-9_]*[A-Z0-9]\b/g)].map(([name]) => name),
      ),
    )
    // The key in examples of requests is no setting of a process.
    const names = new Set(named.flat().filter((name) => name !== 'SLUICE_KEY'))
    expect(names.size).toBeGreaterThan(10)
    const all = new Set(Object.values(processes).flatMap((variables) => Object.keys(variables)))
    expect([...names].filter((name) => !all.has(name))).toStrictEqual([])
  })

  test('values.yaml names every key of the Secret', () => {
    const comment = text.slice(text.indexOf('# Name of the Secret'), text.indexOf('\nsecretName:'))
    const listed = new Set([...comment.matchAll(/SLUICE_[A-Z0-9_]+/g)].map(([name]) => name))
    const secrets = Object.values(known).flatMap((variables) =>
      Object.entries(variables)
        .filter(([, { secret }]) => secret)
        .map(([name]) => name),
    )
    expect([...listed].sort()).toStrictEqual([...new Set(secrets)].sort())
  })

  test.each(Object.entries(processes))('the Secret of the README is all that %s needs', async (name, variables) => {
    const block = /cat > sluice\.env <<END\n([^]*?)\n *END\n/.exec(await read('README.md'))?.[1] ?? ''
    const secret = Object.fromEntries(
      [...block.matchAll(/^ *(SLUICE_\w+)=(.*)$/gm)].map(([, key = '', value]) => [key, value]),
    )
    const key = Buffer.alloc(32).toString('base64')
    const environment = Object.fromEntries(
      Object.keys(known[name] ?? {})
        .filter((variable) => secret[variable] !== undefined)
        .map((variable) => [variable, secret[variable]?.replace(/\$\(openssl rand -base64 32\)/, key)]),
    )
    expect(() => loadConfig(variables, environment)).not.toThrow()
  })
})

function merged(base: unknown, over: unknown): unknown {
  const isMap = (value: unknown): value is Values =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isMap(base) || !isMap(over)) return over
  return {
    ...base,
    ...Object.fromEntries(Object.entries(over).map(([name, value]) => [name, merged(base[name], value)])),
  }
}
