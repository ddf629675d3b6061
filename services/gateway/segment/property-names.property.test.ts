import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { PropertyNames } from './property-names.ts'

const name = fc
  .array(fc.constantFrom('a', 'b', 'ab', '', '-', '\u{1F600}'), { maxLength: 4 })
  .map((parts) => parts.join('.'))

/** Whether an object of this name has a member of the other name after flattening. */
const hasMember = (object: string, member: string) => member.startsWith(`${object}.`)

test('a name is taken if it is there, or is a member of one that is, or has one as its member', () => {
  fc.assert(
    fc.property(fc.array(name, { maxLength: 12 }), fc.array(name, { maxLength: 4 }), name, (first, added, other) => {
      const names = new PropertyNames(first)
      for (const each of added) names.add(each)
      const expected = [...first, ...added].some(
        (each) => each === other || hasMember(each, other) || hasMember(other, each),
      )
      expect(names.isTaken(other)).toBe(expected)
    }),
    { numRuns: 2_000 },
  )
})
