import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { generateKey } from '@sluice/access/api-key'
import { findWriteKey } from '@sluice/http/authenticate'

const key = generateKey('prod')
const other = generateKey('prod')
const member = `"writeKey":"${other}"`

test('the key of a body is found wherever and however often it is a member, and never in texts and names', () => {
  const text = fc.oneof(fc.string(), fc.constantFrom(member, `{${member}}`, 'writeKey', '"writeKey"', other, '\\', '"'))
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.integer(),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(
        text.filter((name) => name !== 'writeKey'),
        tie('value'),
        { maxKeys: 3 },
      ),
    ),
  }))
  const body = fc.record({ before: value, batch: fc.array(fc.record({ a: value, hasKey: fc.boolean(), b: value })) })
  fc.assert(
    fc.property(body, fc.boolean(), fc.constantFrom('', ' ', '  ', '\t'), ({ before, batch }, isOutside, indent) => {
      const messages = batch.map(({ a, hasKey, b }) => ({ a, ...(hasKey && { writeKey: key }), b }))
      const sent = { before, batch: messages, ...(isOutside && { writeKey: key }) }
      const isPresent = [isOutside, ...batch.map(({ hasKey }) => hasKey)].includes(true)
      expect(findWriteKey(Buffer.from(JSON.stringify(sent, undefined, indent)))).toBe(isPresent ? key : undefined)
    }),
    { numRuns: 1_000 },
  )
})
