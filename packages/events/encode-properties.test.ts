import { describe, expect, test } from '@jest/globals'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { refusal, rowFromText, rowWith } from '../../tests/support/example-events.ts'

const face = '\u{1F600}'

/** An object of `levels` levels: `{a: {a: … 1}}`. */
function nested(levels: number): unknown {
  return levels === 0 ? 1 : { a: nested(levels - 1) }
}

/** A list of `levels` levels: `[[… 1]]`. */
function nestedList(levels: number): unknown {
  return levels === 0 ? 1 : [nestedList(levels - 1)]
}

function keys(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]))
}

describe('the types of properties', () => {
  test('are stored with their texts', () => {
    const row = rowFromText(
      '"properties": {"s": "5", "n": 5, "f": 0.1, "big": 1e21, "neg": -2.5e-7, "t": true, "f2": false, "l": [1, "x", null, {"a": [true]}], "e": []}',
    )
    expect({ ...row.properties }).toStrictEqual({
      s: '5',
      n: '5',
      f: '0.1',
      big: '1e+21',
      neg: '-2.5e-7',
      t: 'true',
      f2: 'false',
      l: '[1,"x",null,{"a":[true]}]',
      e: '[]',
    })
    expect({ ...row.property_types }).toStrictEqual({
      n: 'number',
      f: 'number',
      big: 'number',
      neg: 'number',
      t: 'boolean',
      f2: 'boolean',
      l: 'array',
      e: 'array',
    })
  })

  test('keep the last value of a name that hundreds of members have after flattening', () => {
    /** Each of its 2^(length - 1) members is flattened to as many `a` with dots between. */
    const same = (length: number): object =>
      Object.fromEntries(
        Array.from({ length }, (_, at) => at + 1).map((own) => [
          Array(own).fill('a').join('.'),
          own === length ? `last of ${length}` : same(length - own),
        ]),
      )
    const others = Object.fromEntries(Array.from({ length: 99 }, (_, n) => [`p${n}`, 'x']))
    const name = Array(11).fill('a').join('.')
    expect({ ...rowWith({ properties: { ...others, ...same(11) } }).properties }).toStrictEqual({
      ...others,
      [name]: 'last of 11',
    })
    expect(refusal(() => rowWith({ properties: { ...others, ...same(11), more: 'x' } }))).toBe(
      'Invalid field: properties must not have more than 100 keys after flattening',
    )
  })

  test('are left out if all values are strings, where null is absent and an empty string is a value', () => {
    const row = rowWith({ properties: { a: 'x', empty: '', none: null } })
    expect({ ...row.properties }).toStrictEqual({ a: 'x', empty: '' })
    expect(row).not.toHaveProperty('property_types')
  })

  test.each(['{}', '{"a": null}', '{"a": {}, "b": {"c": {}}}'])(
    'are left out for %s, which has no values',
    (properties) => {
      const row = rowFromText(`"properties": ${properties}`)
      expect(row).not.toHaveProperty('properties')
      expect(row).not.toHaveProperty('property_types')
    },
  )

  test.each(['[]', '"text"', '5', 'true'])('do not exist for %s, which is not an object', (properties) => {
    expect(refusal(() => rowFromText(`"properties": ${properties}`))).toBe(
      'Invalid field: properties must be an object',
    )
  })

  test.each([
    ['"properties": {"a": 1e999}', 'properties.a'],
    ['"properties": {"a": {"b": -1e999}}', 'properties.a.b'],
    ['"properties": {"a": [[1e999]]}', 'properties.a'],
    ['"price": 1e999', 'price'],
  ])('do not include infinite numbers such as %s', (fields, named) => {
    expect(refusal(() => rowFromText(fields))).toBe(`Invalid field: ${named} must be a finite number`)
  })

  test.each([
    ['{"a": 1%s}', 'properties.a'],
    ['{"a": [[-1%s]]}', 'properties.a'],
  ])('do not include integers beyond all doubles either, parsed with all digits: %s', (properties, named) => {
    const parsed = parseExactly(properties.replace('%s', '0'.repeat(400))) as object
    expect(refusal(() => rowWith({ properties: parsed }))).toBe(`Invalid field: ${named} must be a finite number`)
  })
})

describe('numbers that a double cannot hold', () => {
  test('keep their digits, at any place of the properties', () => {
    const row = rowFromText(
      '"order": 12345678901234567890, "properties": {"n": -9007199254740993, "deep": {"id": 100000000000000000000001}, "list": [9007199254740993, {"id": 12345678901234567890}, "x"], "safe": 9007199254740991}',
    )
    expect({ ...row.properties }).toStrictEqual({
      order: '12345678901234567890',
      n: '-9007199254740993',
      'deep.id': '100000000000000000000001',
      list: '[9007199254740993,{"id":12345678901234567890},"x"]',
      safe: '9007199254740991',
    })
    expect(row.property_types).toEqual({
      order: 'number',
      n: 'number',
      'deep.id': 'number',
      list: 'array',
      safe: 'number',
    })
  })

  test('are numbers in error messages of known fields', () => {
    expect(
      refusal(() => rowFromText('"properties": {"n": 12345678901234567890}, "timestamp": 12345678901234567890')),
    ).toBe('Invalid field: timestamp must not be more than 24 hours in the future')
    expect(refusal(() => rowFromText('"n": 12345678901234567890, "user_id": 12345678901234567890'))).toBe(
      'Invalid field: user_id must be a string',
    )
  })

  test('keep a fraction and an exponent as they were sent, unlike numbers that a double holds', () => {
    const row = rowFromText(
      '"a": 123456789012345678e3, "b": 0.10000000000000000001, "c": [1.0000000000000000001e-40], "d": 1e21, "e": 1.0',
    )
    expect({ ...row.properties }).toStrictEqual({
      a: '123456789012345678e3',
      b: '0.10000000000000000001',
      c: '[1.0000000000000000001e-40]',
      d: '1e+21',
      e: '1',
    })
  })
})

describe('flattening', () => {
  test('joins names with dots', () => {
    const row = rowWith({ properties: { cart: { items: 2, owner: { name: 'Ada' } }, 'a.b': 1 } })
    expect({ ...row.properties }).toStrictEqual({ 'cart.items': '2', 'cart.owner.name': 'Ada', 'a.b': '1' })
  })

  test('keeps the last of equal names with its type', () => {
    expect(rowFromText('"properties": {"a.b": 1, "a": {"b": "x"}}')).toMatchObject({ properties: { 'a.b': 'x' } })
    expect(rowFromText('"properties": {"a.b": 1, "a": {"b": "x"}}')).not.toHaveProperty('property_types')
    const other = rowFromText('"properties": {"a": {"b": "x"}, "a.b": 1}')
    expect(other).toMatchObject({ properties: { 'a.b': '1' }, property_types: { 'a.b': 'number' } })
    expect(rowFromText('"properties": {"a.b": 1, "a": {"b": true}}')).toMatchObject({
      properties: { 'a.b': 'true' },
      property_types: { 'a.b': 'boolean' },
    })
    expect(rowFromText('"properties": {"a": 1, "a": 2}')).toMatchObject({ properties: { a: '2' } })
  })

  test('keeps an earlier value when a later value of the same name is null', () => {
    expect(rowFromText('"properties": {"a.b": 1, "a": {"b": null}}')).toMatchObject({ properties: { 'a.b': '1' } })
  })

  test('treats __proto__ and constructor as plain names', () => {
    const names = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__']
    const properties = names.map((name, n) => `"${name}": ${n}`).join(', ')
    const row = rowFromText(`"properties": {${properties}, "deep": {"__proto__": {"polluted": 1}}}`)
    const text = JSON.stringify(row.properties)
    for (const [n, name] of names.entries()) expect(text).toContain(`"${name}":"${n}"`)
    expect(text).toContain('"deep.__proto__.polluted":"1"')
    expect({}).not.toHaveProperty('polluted')
  })

  test('treats __proto__ and constructor as plain names at the top of the event and in lists too', () => {
    const row = rowFromText('"__proto__": {"polluted": 1}, "constructor": 2, "l": [{"__proto__": {"polluted": 3}}]')
    expect(JSON.stringify(row.properties)).toBe(
      '{"__proto__.polluted":"1","constructor":"2","l":"[{\\"__proto__\\":{\\"polluted\\":3}}]"}',
    )
    expect({}).not.toHaveProperty('polluted')
  })
})

describe('unknown fields of the event', () => {
  test('are kept as properties', () => {
    const row = rowWith({ plan: 'pro', cart: { items: 2 }, tags: ['a'], gone: null })
    expect({ ...row.properties }).toStrictEqual({ plan: 'pro', 'cart.items': '2', tags: '["a"]' })
  })

  test('are replaced by properties of the same name', () => {
    const row = rowWith({ plan: 'field', n: 1, properties: { plan: 'property', n: 'text' } })
    expect(row).toMatchObject({ properties: { plan: 'property', n: 'text' } })
    expect(row).not.toHaveProperty('property_types')
    expect(rowWith({ plan: 'field', properties: { plan: null } })).toMatchObject({ properties: { plan: 'field' } })
  })

  test('follow the rules of properties, and errors name them as they were sent', () => {
    expect(refusal(() => rowWith({ plan: 'x'.repeat(2049) }))).toBe(
      'Invalid field: plan exceeds maximum length of 2048',
    )
    expect(refusal(() => rowWith({ cart: { note: 'a\0' } }))).toBe(
      'Invalid field: cart.note must not contain NUL characters',
    )
  })
})

describe('the limits of properties', () => {
  const tooMany = 'Invalid field: properties must not have more than 100 keys after flattening'

  test('allow 100 keys after flattening', () => {
    expect(Object.keys(rowWith({ properties: keys(100) }).properties ?? {})).toHaveLength(100)
    expect(refusal(() => rowWith({ properties: keys(101) }))).toBe(tooMany)
    expect(refusal(() => rowWith({ properties: { a: keys(60), b: keys(41) } }))).toBe(tooMany)
    expect(refusal(() => rowWith({ ...keys(60), properties: { a: keys(41) } }))).toBe(tooMany)
  })

  test('count neither repeated names nor absent values', () => {
    const nulls = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`null${n}`, null]))
    const row = rowWith({ ...keys(100), properties: { ...keys(100), ...nulls } })
    expect(Object.keys(row.properties ?? {})).toHaveLength(100)
  })

  test('allow 128 code points in a name after flattening', () => {
    for (const character of ['k', face]) {
      const longest = character.repeat(128)
      expect({ ...rowWith({ properties: { [longest]: 1 } }).properties }).toStrictEqual({ [longest]: '1' })
      expect(refusal(() => rowWith({ properties: { [`${longest}k`]: 1 } }))).toMatch(
        /^Invalid field: properties\..+ has a name longer than 128 characters$/,
      )
    }
    const [outer, inner] = ['o'.repeat(64), 'i'.repeat(63)]
    expect({ ...rowWith({ properties: { [outer]: { [inner]: 1 } } }).properties }).toStrictEqual({
      [`${outer}.${inner}`]: '1',
    })
    expect(refusal(() => rowWith({ properties: { [outer]: { [`${inner}i`]: 1 } } }))).toContain('longer than 128')
  })

  test('allow 2,048 code points in a string, and longer ones are rejected instead of cut', () => {
    for (const character of ['x', face]) {
      expect(rowWith({ properties: { a: character.repeat(2048) } }).properties?.a).toBe(character.repeat(2048))
      expect(refusal(() => rowWith({ properties: { a: character.repeat(2049) } }))).toBe(
        'Invalid field: properties.a exceeds maximum length of 2048',
      )
    }
  })

  test('allow 32 levels, of which the event is the first and `properties` the second', () => {
    const tooDeep = /^Invalid field: (properties\.)?[a.]+ is nested deeper than 32 levels$/
    expect(rowWith({ properties: nested(31) })).toHaveProperty('properties')
    expect(refusal(() => rowWith({ properties: nested(32) }))).toMatch(tooDeep)
    expect(rowWith(nested(32) as object)).toHaveProperty('properties')
    expect(refusal(() => rowWith(nested(33) as object))).toMatch(tooDeep)
    expect(rowWith({ properties: { a: nestedList(30) } })).toHaveProperty('properties')
    expect(refusal(() => rowWith({ properties: { a: nestedList(31) } }))).toMatch(tooDeep)
    expect(rowWith({ a: nestedList(31) })).toHaveProperty('properties')
    expect(refusal(() => rowWith({ a: nestedList(32) }))).toMatch(tooDeep)
    expect(refusal(() => rowWith({ a: [nested(31)] }))).toMatch(tooDeep)
  })

  test.each(['site_id', 'timestamp', 'country', 'device_type', 'properties', 'other'])(
    'reject 200,000 levels in the field %s',
    (field) => {
      const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
      expect(refusal(() => rowFromText(`"${field}": ${deep}`))).toMatch(new RegExp(`^Invalid field: ${field} `))
    },
  )
})

describe('the names of properties', () => {
  test.each([
    ['"": 1', 'event'],
    ['"": {}', 'event'],
    ['"": null', 'event'],
    ['"properties": {"": 1}', 'properties'],
    ['"properties": {"a": {"": 1}}', 'properties.a'],
    ['"cart": {"": 1}', 'cart'],
  ])('must not be empty as in %s', (fields, named) => {
    expect(refusal(() => rowFromText(fields))).toBe(`Invalid field: ${named} must not have an empty name`)
  })

  test.each([
    ['"a\\u0000": 1', 'event'],
    ['"properties": {"a\\u0000": 1}', 'properties'],
    ['"properties": {"a": {"\\u0000": 1}}', 'properties'],
  ])('must not contain NUL as in %s', (fields, named) => {
    expect(refusal(() => rowFromText(fields))).toBe(`Invalid field: ${named} must not have NUL characters in names`)
  })

  test('get U+FFFD for ill-formed UTF-16, after which two names may be equal', () => {
    expect({ ...rowFromText('"a\\ud83d": 1, "properties": {"b\\udc00": {"\\ud800": 2}}').properties }).toStrictEqual({
      'a\uFFFD': '1',
      'b\uFFFD.\uFFFD': '2',
    })
    expect({ ...rowFromText('"properties": {"\\ud83d": 1, "\\udc00": 2}').properties }).toStrictEqual({ '\uFFFD': '2' })
  })

  test('are not shown in error messages if they contain a key', () => {
    const key = `svc_prod_${'a'.repeat(34)}`
    const named = 'properties.[redacted]'
    expect(refusal(() => rowWith({ properties: { [key]: '\0' } }))).toContain(`Invalid field: ${named} must not`)
    expect(refusal(() => rowWith({ properties: { [key]: { '': 1 } } }))).toContain(`Invalid field: ${named} must not`)
    expect(refusal(() => rowWith({ [key]: 'x'.repeat(3_000) }))).toContain('Invalid field: [redacted] exceeds')
    expect(refusal(() => rowWith({ [key + face.repeat(100)]: 1 }))).toContain('[redacted] has a name longer')
  })

  test('are well-formed in error messages, even where they are cut', () => {
    for (const shift of ['', 'k']) {
      const message = refusal(() => rowWith({ [shift + face.repeat(300)]: 1 }))
      expect(message).toContain('longer than 128')
      expect(message.isWellFormed()).toBe(true)
    }
  })
})

describe('the texts of properties', () => {
  test('get U+FFFD for ill-formed UTF-16, in lists and in names within lists too', () => {
    const row = rowFromText('"properties": {"a": "\\ud83d", "l": ["\\udc00", {"\\ud800": "\\ud800"}]}')
    expect({ ...row.properties }).toStrictEqual({ a: '\uFFFD', l: '["\uFFFD",{"\uFFFD":"\uFFFD"}]' })
  })

  test('get U+FFFD in names of nested objects without more work at each level', () => {
    const depth = 29
    const text = `${'{"a":'.repeat(depth)}1${',"\\ud800":1}'.repeat(depth)}`
    const { properties } = rowFromText(`"properties": {"l": [${text}]}`)
    expect(properties?.l).toBe(`[${'{"a":'.repeat(depth)}1${',"\uFFFD":1}'.repeat(depth)}]`)
  }, 60_000)

  test.each(['"\\u0000"', '["\\u0000"]', '[["a", {"b": "\\u0000"}]]', '[{"\\u0000": 1}]'])(
    'must not contain NUL as in %s',
    (value) => {
      expect(refusal(() => rowFromText(`"properties": {"a": ${value}}`))).toBe(
        'Invalid field: properties.a must not contain NUL characters',
      )
    },
  )
})
