import { describe, expect, test } from '@jest/globals'
import { listOf, listText } from './conditions.ts'

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
