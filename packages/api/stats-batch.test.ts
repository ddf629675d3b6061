import { expect, test } from '@jest/globals'
import joi from 'joi'
import { validate } from '@sluice/runtime/validate'
import { startCpuStopwatch } from '../../tests/support/stopwatch.ts'
import { statsBatchBody } from './stats-batch.ts'

test('half a million questions, which a compressed body of 2 kB may hold, are counted before they are looked at', () => {
  const body = { queries: Array.from({ length: 500_000 }, () => 1) }
  const cpuMsOf = (schema: joi.ObjectSchema<{ queries: unknown[] }>): number => {
    const cpuMs = startCpuStopwatch()
    expect(() => validate(schema, body)).toThrow('Invalid field: queries must contain at most 20')
    return cpuMs()
  }
  const looking = joi.object<{ queries: unknown[] }>({ queries: joi.array().items(joi.any()).max(20) })
  cpuMsOf(looking)
  expect(cpuMsOf(statsBatchBody)).toBeLessThan(cpuMsOf(looking) / 2)
})
