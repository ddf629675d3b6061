import { describe, expect, test } from '@jest/globals'
import joi from 'joi'
import { AppError } from './errors.ts'
import { text } from './schemas.ts'
import { validate } from './validate.ts'

const schema = joi.object({
  name: text(4).required(),
  plain: joi.string(),
  kind: joi.string().valid('a', 'b'),
  count: joi.number().integer().min(1).max(10),
  active: joi.boolean(),
  tags: joi.array().items(joi.string()).max(2),
  condition: joi.object({ metric: joi.string().required(), threshold: joi.number().required() }),
})

function messageFor(value: unknown): string {
  try {
    validate(schema, value)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    expect(['missing_field', 'invalid_field', 'invalid_format']).toContain(error.code)
    return error.message
  }
  return 'valid'
}

describe('a missing field is named by its dotted path', () => {
  test.each([
    [{}, 'name'],
    [{ name: '' }, 'name'],
    [{ name: null }, 'name'],
    [{ name: 'n', condition: {} }, 'condition.metric'],
    [{ name: 'n', condition: { metric: '' } }, 'condition.metric'],
    [{ name: 'n', condition: { metric: 'm' } }, 'condition.threshold'],
    [{ name: 'n', condition: { metric: 'm', threshold: '' } }, 'condition.threshold'],
  ])('in %j', (value, field) => {
    expect(messageFor(value)).toBe(`Missing required field: ${field}`)
  })

  test.each([
    ['one of several texts', joi.string().valid('a', 'b')],
    ['a boolean', joi.boolean()],
    ['an array', joi.array()],
    ['an object', joi.object()],
  ])('when it must be %s and is empty', (_type, required) => {
    expect((): unknown => validate(joi.object({ of: required.required() }), { of: '' })).toThrow(
      'Missing required field: of',
    )
  })
})

describe('a wrong value is named with the reason', () => {
  test.each([
    [{ name: 'abcde' }, 'name exceeds maximum length of 4'],
    [{ name: 5 }, 'name must be a string'],
    [{ name: 'a\0' }, 'name must not contain NUL characters'],
    [{ name: 'n', plain: '' }, 'plain must not be empty'],
    [{ name: 'n', kind: 'c' }, 'kind must be one of: a, b'],
    [{ name: 'n', count: '5' }, 'count must be a number'],
    [{ name: 'n', count: 1.5 }, 'count must be an integer'],
    [{ name: 'n', count: 0 }, 'count must be at least 1'],
    [{ name: 'n', count: 11 }, 'count must be at most 10'],
    [{ name: 'n', count: Infinity }, 'count must be a finite number'],
    [{ name: 'n', active: 'yes' }, 'active must be a boolean'],
    [{ name: 'n', tags: 'x' }, 'tags must be an array'],
    [{ name: 'n', tags: ['x', 'y', 'z'] }, 'tags must contain at most 2 items'],
    [{ name: 'n', tags: [1] }, 'tags.0 must be a string'],
    [{ name: 'n', condition: [] }, 'condition must be an object'],
    [{ name: 'n', condition: { metric: 1 } }, 'condition.metric must be a string'],
    [{ name: 'n', other: 1 }, 'other is not known'],
    [{ name: 'n', '': 1 }, '"" is not known'],
    [{ name: 'n', condition: { metric: 'm', threshold: 1, other: 1 } }, 'condition.other is not known'],
  ])('in %j', (value, reason) => {
    expect(messageFor(value)).toBe(`Invalid field: ${reason}`)
  })
})

test('a name that the sender chose is cut in the error', () => {
  expect(messageFor({ name: 'n', ['x'.repeat(1_000_000)]: 1 })).toBe(`Invalid field: ${'x'.repeat(64)} is not known`)
})

test('only the first problem is reported, in the order of the schema with unknown fields last', () => {
  expect(messageFor({ other: 1, count: 0, kind: 'c' })).toBe('Missing required field: name')
  expect(messageFor({ other: 1, count: 0, kind: 'c', name: 'n' })).toBe('Invalid field: kind must be one of: a, b')
  expect(messageFor({ other: 1, count: 0, name: 'n' })).toBe('Invalid field: count must be at least 1')
})

test('__proto__ is an unknown field', () => {
  expect(messageFor(JSON.parse('{"__proto__":{"name":"n"},"name":"n"}'))).toBe('Invalid field: __proto__ is not known')
  expect(messageFor(JSON.parse('{"__proto__":{"name":"n"}}'))).toBe('Missing required field: name')
  expect(messageFor(JSON.parse('{"__proto__":1,"name":5}'))).toBe('Invalid field: name must be a string')
})

test.each([null, undefined, [], 'text', 5])('%j is refused because it is no object', (value) => {
  expect(messageFor(value)).toBe('Invalid format: body must be a JSON object')
})

test('a schema can define the reasons in its error texts', () => {
  const own = schema.messages({ 'object.unknown': 'is not a known parameter' })
  expect((): unknown => validate(own, { name: 'n', other: 1 })).toThrow('Invalid field: other is not a known parameter')
})
