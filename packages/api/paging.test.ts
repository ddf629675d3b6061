import { describe, expect, test } from '@jest/globals'
import { validate } from '@sluice/runtime/validate'
import { pageQuery } from './paging.ts'

test('a page has 50 items from the start by default', () => {
  expect(validate(pageQuery, {})).toStrictEqual({ limit: 50, offset: 0 })
})

test.each([
  ['1', '0'],
  ['1000', '9007199254740991'],
])('limit %s and offset %s are accepted', (limit, offset) => {
  expect(validate(pageQuery, { limit, offset })).toStrictEqual({ limit: Number(limit), offset: Number(offset) })
})

describe('the error names the invalid parameter of', () => {
  test.each<[object, string]>([
    [{ limit: '0' }, 'limit must be at least 1'],
    [{ limit: '1001' }, 'limit must be at most 1000'],
    [{ limit: '-1' }, 'limit must be at least 1'],
    [{ limit: '1.5' }, 'limit must be an integer'],
    [{ limit: '' }, 'limit must be a number'],
    [{ limit: 'ten' }, 'limit must be a number'],
    [{ limit: ['1', '2'] }, 'limit must be given only once'],
    [{ limit: '9007199254740993' }, 'limit must be from 1 to 1000'],
    [{ limit: 'Infinity' }, 'limit must be a number'],
    [{ offset: '-1' }, 'offset must be at least 0'],
    [{ offset: '0.5' }, 'offset must be an integer'],
    [{ offset: ['0', '0'] }, 'offset must be given only once'],
    [{ offset: '9007199254740993' }, 'offset must be from 0 to 9007199254740991'],
    [{ offset: '1e400' }, 'offset must be from 0 to 9007199254740991'],
    [{ page: '1' }, 'page is not a known parameter'],
  ])('%j', (query, reason) => {
    expect((): unknown => validate(pageQuery, query)).toThrow(
      expect.objectContaining({ code: 'invalid_field', message: `Invalid field: ${reason}` }),
    )
  })
})
