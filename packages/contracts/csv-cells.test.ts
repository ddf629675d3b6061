import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { guardCell, unguardCell } from './csv-cells.ts'

const formula = /^[=+\-@\t\r]/

describe('a cell in an export', () => {
  test.each([
    ['=1+1', "'=1+1"],
    ['+49 30 1', "'+49 30 1"],
    ['-', "'-"],
    ['@a', "'@a"],
    ['\t1', "'\t1"],
    ['\r', "'\r"],
    ["'=1", "''=1"],
    ["''-5", "'''-5"],
    ['-1.5e-7x', "'-1.5e-7x"],
  ])('is guarded: %j', (cell, written) => expect(guardCell(cell)).toBe(written))

  test.each(['', 'a=1', '-5', '+5.25', '-1.5e-7', '1e+3', "'", "'a", "''", ' =1'])('stays as it is: %j', (cell) =>
    expect(guardCell(cell)).toBe(cell),
  )
})

const cell = fc.oneof(
  fc.string({ unit: fc.constantFrom("'", '=', '+', '-', '@', '\t', '\r', '1', '.', 'e', 'a', ' ', '"') }),
  fc.string({ unit: 'binary' }),
)

test('an import restores every cell of an export, of which none starts a formula', () => {
  fc.assert(
    fc.property(cell, (text) => {
      const written = guardCell(text)
      expect(unguardCell(written)).toBe(text)
      if (formula.test(written)) expect(Number(written)).not.toBeNaN()
    }),
    { numRuns: 2_000 },
  )
})
