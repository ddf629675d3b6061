import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import joi from 'joi'
import { ConfigError, type Environment, loadConfig } from './config.ts'
import { describeFormerName, formerNamesInUse } from './renamed-variables.ts'
import { optionalSecretVariable, optionalVariable, urlVariable } from './variables.ts'

const variables = {
  URL: urlVariable({ schemes: ['postgres'], description: 'A database.' }),
  KEY: optionalSecretVariable('A key.', (text) => {
    if (!/^\w+$/.test(text)) throw new Error('is not a key')
  }),
  CACHE: { schema: joi.string().required(), description: 'A cache.', secret: true as const, default: 'memory:' },
  NAME: optionalVariable('A name.'),
}

let folder: string
let fileCount = 0

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
})

afterAll(() => {
  rmSync(folder, { recursive: true })
})

function file(content: string | Buffer): string {
  const path = join(folder, `secret-${fileCount++}`)
  writeFileSync(path, content)
  return path
}

function mistakes(load: () => unknown): readonly string[] {
  try {
    load()
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
  return []
}

const mistakesIn = (environment: Environment) => mistakes(() => loadConfig(variables, environment))

describe('variables that belong together', () => {
  const pairs = {
    ...variables,
    SERVER: { ...optionalSecretVariable('A server.', () => undefined), pairedWith: 'SENDER' },
    SENDER: optionalVariable('A sender.'),
  }
  const mistake = 'SERVER and SENDER must be set both, or neither'
  const mistakesOf = (environment: Environment) =>
    mistakes(() => loadConfig(pairs, { URL: 'postgres://h', ...environment }))

  test('are set both, or neither', () => {
    expect(mistakesOf({})).toStrictEqual([])
    expect(mistakesOf({ SERVER: '', SENDER: '' })).toStrictEqual([])
    expect(mistakesOf({ SERVER: 'a', SENDER: 'b' })).toStrictEqual([])
    expect(mistakesOf({ SERVER_FILE: file('a'), SENDER: 'b' })).toStrictEqual([])
    expect(mistakesOf({ SERVER: 'a' })).toStrictEqual([mistake])
    expect(mistakesOf({ SERVER_FILE: file('a') })).toStrictEqual([mistake])
    expect(mistakesOf({ SENDER: 'b', SERVER: '' })).toStrictEqual([mistake])
    // Only secrets are read from files.
    expect(mistakesOf({ SERVER: 'a', SENDER_FILE: file('b') })).toStrictEqual([mistake])
  })

  test('are reported together with the mistakes of the others', () => {
    const expected = [expect.stringMatching(/^KEY is not a key/), mistake]
    expect(mistakesOf({ SENDER: 'b', KEY: '?' })).toStrictEqual(expected)
  })
})

describe('a secret in a file', () => {
  test.each(['', '\n', '\r\n', '\n\n'])('is the content without the line ends after it: %j', (end) => {
    const environment = {
      URL_FILE: file(`postgres://u:p@h/d${end}`),
      KEY_FILE: file(`abc${end}`),
      CACHE_FILE: file(`x${end}`),
    }
    expect(loadConfig(variables, environment)).toEqual({ URL: 'postgres://u:p@h/d', KEY: 'abc', CACHE: 'x' })
  })

  test('is not needed: an empty name of a file counts as unset', () => {
    expect(loadConfig(variables, { URL: 'postgres://h', URL_FILE: '', KEY: '', KEY_FILE: '' })).toEqual({
      URL: 'postgres://h',
      CACHE: 'memory:',
    })
  })

  test('beside the value is a mistake, even if both are the same', () => {
    expect(mistakesIn({ URL: 'postgres://h', URL_FILE: file('postgres://h') })).toStrictEqual([
      'URL and URL_FILE are both set: unset one of them',
    ])
  })

  test.each<[string, () => string, string]>([
    ['is missing', () => join(folder, 'canary'), 'names a file that does not exist: create it, or correct the path'],
    ['is the value itself', () => 'canary', 'names a file that does not exist: create it, or correct the path'],
    ['is empty', () => file(''), 'names an empty file: write the value into it'],
    ['holds line ends alone', () => file('\r\n\n'), 'names an empty file: write the value into it'],
    [
      'is large',
      () => file('canary'.repeat(11_000)),
      'names a file of more than 64 KiB: give one that holds the value alone',
    ],
    ['is a folder', () => folder, 'does not name a regular file: give the path of the file with the value'],
    ['is a device', () => '/dev/zero', 'does not name a regular file: give the path of the file with the value'],
    [
      'is no text',
      () => file(Buffer.of(99, 0xff)),
      'names a file that is not UTF-8 text: write the value into it as text',
    ],
    [
      'is below a file',
      () => join(file('canary'), 'canary'),
      'names a file that cannot be read (ENOTDIR): give the path of the file with the value',
    ],
  ])('that %s is a mistake that names the variable, and neither path nor content', (_, path, mistake) => {
    expect(mistakesIn({ URL: 'postgres://h', KEY_FILE: path() })).toStrictEqual([`KEY_FILE ${mistake}`])
  })

  test('with the largest size is read', () => {
    const key = 'k'.repeat(64 * 1024)
    expect(loadConfig(variables, { URL: 'postgres://h', KEY_FILE: file(key) }).KEY).toBe(key)
  })

  test('that holds a wrong value is a mistake of the variable, which is not printed', () => {
    const [first, second] = mistakesIn({ URL_FILE: file('ftp://canary'), KEY_FILE: file('can ary') })
    expect(first).toBe('URL must start with "postgres:" (it is read from URL_FILE)\n    A database.')
    expect(second).toBe('KEY is not a key (it is read from KEY_FILE)\n    A key.')
  })

  test('satisfies a required variable only if it can be read, and is one mistake then', () => {
    expect(mistakesIn({ URL_FILE: join(folder, 'canary') })).toHaveLength(1)
  })

  test('is not read for a variable that holds no secret', () => {
    expect(loadConfig(variables, { URL: 'postgres://h', NAME_FILE: file('x') })).not.toHaveProperty('NAME')
  })
})

describe('a variable that was renamed', () => {
  const renamed = new Map([
    ['OLD_URL', 'URL'],
    ['OLD_NAME', 'NAME'],
    ['OLD_OTHER', 'OTHER'],
  ])
  const load = (environment: Environment) => loadConfig(variables, environment, renamed)

  test('works under its former name, which is reported', () => {
    const environment = { OLD_URL: 'postgres://h', OLD_NAME: 'n', OLD_OTHER: 'of another service' }
    expect(load(environment)).toMatchObject({ URL: 'postgres://h', NAME: 'n' })
    expect(formerNamesInUse(variables, environment, renamed).map(describeFormerName)).toStrictEqual([
      'OLD_URL is the former name of URL, and a later release will not read it: rename it',
      'OLD_NAME is the former name of NAME, and a later release will not read it: rename it',
    ])
  })

  test('works under the former name of its file', () => {
    const environment = { OLD_URL_FILE: file('postgres://h\n') }
    expect(load(environment)).toMatchObject({ URL: 'postgres://h' })
    expect(formerNamesInUse(variables, environment, renamed)).toStrictEqual([
      { former: 'OLD_URL_FILE', present: 'URL_FILE' },
    ])
  })

  test('may have one value under both names, for builds from before and after', () => {
    expect(load({ OLD_URL: 'postgres://h', URL: 'postgres://h' })).toMatchObject({ URL: 'postgres://h' })
  })

  test('may not have two values, which are not printed', () => {
    expect(mistakes(() => load({ OLD_URL: 'postgres://canary', URL: 'postgres://h' }))).toStrictEqual([
      'OLD_URL is the former name of URL, and both are set, to different values: unset OLD_URL',
    ])
    expect(mistakes(() => load({ OLD_URL: 'postgres://canary', URL_FILE: file('postgres://h') }))).toStrictEqual([
      'URL and URL_FILE are both set: unset one of them',
    ])
  })

  test('is reported under its present name when its value is wrong', () => {
    expect(mistakes(() => load({ OLD_URL: 'ftp://h' }))).toStrictEqual([
      'URL must start with "postgres:"\n    A database.',
    ])
  })

  test('is not reported while its former name is unset or empty', () => {
    expect(formerNamesInUse(variables, { URL: 'postgres://h', OLD_URL: '' }, renamed)).toStrictEqual([])
  })
})
