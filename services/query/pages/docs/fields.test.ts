import { describe, expect, it } from '@jest/globals'
import type { JsonSchema } from '@sluice/api/openapi/types'
import { fieldsTable, rulesOf, typeOf } from './fields.ts'

describe('the rules of a value', () => {
  it.each<[string, JsonSchema, boolean]>([
    ['required; 1 to 64 characters', { type: 'string', minLength: 1, maxLength: 64 }, true],
    ['at most 64 characters', { type: 'string', maxLength: 64, pattern: '^[^\\u0000]*$' }, false],
    ['default <code>50</code>; 1 to 1000', { type: 'integer', default: 50, minimum: 1, maximum: 1000 }, false],
    ['at least 0', { type: 'integer', minimum: 0 }, false],
    ['one of <code>a</code>, <code>&lt;b&gt;</code>', { type: ['string', 'null'], enum: ['a', '<b>', null] }, false],
    ['pattern <code>^[a-z]{2}$</code>', { type: 'string', minLength: 1, pattern: '^[a-z]{2}$' }, false],
    ['pattern <code>^[a-z]{2}$</code>', { type: 'string', pattern: '^$|^[a-z]{2}$' }, false],
    ['not blank', { type: 'string', pattern: '^$|^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$' }, false],
    ['exactly 30 items', { type: 'array', minItems: 30, maxItems: 30 }, false],
    [
      'at most 9 items; each: at most 8 characters; each once',
      { type: 'array', maxItems: 9, uniqueItems: true, items: { type: 'string', maxLength: 8 } },
      false,
    ],
    ['', { type: 'string', minLength: 1 }, false],
  ])('%s', (rules, schema, isRequired) => expect(rulesOf(schema, isRequired)).toBe(rules))
})

describe('the type of a value', () => {
  it.each<[string, JsonSchema]>([
    ['string or null', { type: ['string', 'null'] }],
    ['list of integer', { type: 'array', items: { type: 'integer' } }],
    ['list of <a href="#object-Key">Key</a>', { type: 'array', items: { $ref: '#/components/schemas/Key' } }],
    [
      'list of <a href="#object-A">A</a> or <a href="#object-B">B</a>',
      {
        type: 'array',
        items: { type: 'object', oneOf: [{ $ref: '#/components/schemas/A' }, { $ref: '#/components/schemas/B' }] },
      },
    ],
    ['<code>true</code>', { const: true }],
  ])('%s', (words, schema) => expect(typeOf(schema)).toBe(words))
})

it('fields within fields are named by their path', () => {
  const name = { type: 'string' }
  const html = fieldsTable('Body', {
    properties: {
      one: { type: 'object', properties: { name } },
      many: { type: 'array', items: { type: 'object', properties: { name } } },
    },
  })
  expect([...html.matchAll(/<th scope="row"><code>(.*?)<\/code>/g)].map(([, path]) => path)).toEqual([
    'one',
    'one.name',
    'many',
    'many[].name',
  ])
})
