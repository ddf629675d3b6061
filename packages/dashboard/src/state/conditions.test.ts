import { describe, expect, test } from '@jest/globals'
import type { Condition } from '@sluice/contracts/conditions'
import { type FilterClick, filtersAfterClick, formatCondition, listOf, listText, parseCondition } from './conditions.ts'

test('a number in a condition is what the service takes for one', () => {
  const isTaken = (value: string) => parseCondition(`properties.seats:greater_than:${value}`) !== undefined
  expect(['10', '-1.5', '+5', '.5', '1e3'].filter((each) => !isTaken(each))).toStrictEqual([])
  expect(['', '10 ', '0x10', '0b1', '1_000', 'Infinity', '1e999'].filter(isTaken)).toStrictEqual([])
})

describe('the text of a list of values', () => {
  test.each([
    [['Pro, yearly', 'Basic'], 'Pro\\, yearly, Basic'],
    [['C:\\temp', 'a'], 'C:\\\\temp, a'],
    [['one'], 'one'],
    [[], ''],
  ])('of %j is %j, and is read as these values again', (values, text) => {
    expect(listText(values)).toBe(text)
    expect(listOf(text)).toStrictEqual(values)
  })

  test('is read without spaces around values and without empty ones', () => {
    expect(listOf(' a ,, b,')).toStrictEqual(['a', 'b'])
    expect(listOf('C:\\temp, D\\')).toStrictEqual(['C:\\temp', 'D\\'])
  })
})

describe('a click on a value', () => {
  const afterClick = (filters: string[], property: string, value: string, click: FilterClick) => {
    const conditions = filters.map(parseCondition).filter((each): each is Condition => each !== undefined)
    return filtersAfterClick(conditions, property, value, click).map(formatCondition)
  }

  test.each<[string[], FilterClick, string, string, string[]]>([
    [['path:starts_with:/blog'], 'is_not', 'path', '/blog', ['path:starts_with:/blog', 'path:not_equals:/blog']],
    [['path:starts_with:/blog'], 'is', 'path', '/blog', ['path:starts_with:/blog', 'path:equals:/blog']],
    [['path:starts_with:/blog', 'path:equals:/blog'], 'is', 'path', '/blog', ['path:starts_with:/blog']],
    [
      ['properties.seats:greater_than_or_equal:5'],
      'is_not',
      'properties.seats',
      '5',
      ['properties.seats:greater_than_or_equal:5', 'properties.seats:not_equals:5'],
    ],
  ])('keeps conditions that compare otherwise: %j, %s %s %s', (filters, click, property, value, expected) =>
    expect(afterClick(filters, property, value, click)).toStrictEqual(expected),
  )

  test.each<[string[], FilterClick, string, string[]]>([
    [['country:in:DE,FR'], 'is_not', 'FR', ['country:equals:DE', 'country:not_equals:FR']],
    [['country:equals:FR'], 'is_not', 'FR', ['country:not_equals:FR']],
    [['country:not_in:DE,FR,US'], 'is', 'FR', ['country:not_in:DE,US', 'country:equals:FR']],
    [['country:not_equals:FR'], 'add', 'FR', ['country:equals:FR']],
    [['country:not_exists'], 'is_not', '', ['country:exists']],
    [['country:exists'], 'is', '', ['country:not_exists']],
    [['country:exists'], 'is', 'FR', ['country:exists', 'country:equals:FR']],
  ])('takes the value alone out of the opposite choice: %j, %s %s', (filters, click, value, expected) =>
    expect(afterClick(filters, 'country', value, click)).toStrictEqual(expected),
  )
})
