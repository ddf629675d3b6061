import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { encodeEvent } from '@sluice/events/encode-event'
import { AppError } from '@sluice/runtime/errors'
import { mapMessage, messageTypes } from './map-message.ts'

const receivedAt = Date.UTC(2026, 0, 31, 12)

/** Names that the mapping knows, and some that hide one another after flattening. */
const names = [
  'a',
  'b',
  'context',
  'context.page',
  'context.page.url',
  'page',
  'page.url',
  'url',
  'referrer',
  'title',
  'name',
  'category',
  'campaign',
  'source',
  'utm_source',
  'utm_campaign',
  'ip',
  'sessionId',
  'properties',
  'traits',
  'event',
  'event_type',
  'site_id',
  'messageId',
  '_message',
  '_message.name',
  '_message.context',
  '__proto__',
  'constructor',
]

/** Stands for each text of a random message; `numberLeaves` makes each of them a different text. */
const leaf = fc.constant('leaf')
const members = (value: fc.Arbitrary<unknown>, maxKeys = 6) =>
  fc
    .uniqueArray(fc.tuple(fc.constantFrom(...names), value), { selector: ([name]) => name, maxLength: maxKeys })
    .map((entries): object => Object.fromEntries(entries))
const value = fc.letrec((tie) => ({
  value: fc.oneof({ weight: 4, arbitrary: leaf }, { weight: 1, arbitrary: members(tie('value'), 4) }),
})).value
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })

const message = fc
  .record({
    type: fc.constantFrom(...messageTypes),
    extra: members(value),
    event: optional(leaf),
    userId: optional(leaf),
    anonymousId: optional(leaf),
    messageId: optional(leaf),
    properties: optional(members(value)),
    traits: optional(members(value)),
    context: optional(
      fc
        .tuple(members(value), optional(members(leaf)), optional(members(leaf)))
        .map(([rest, page, campaign]) => ({ ...rest, ...(page && { page }), ...(campaign && { campaign }) })),
    ),
  })
  .map(({ extra, ...fields }) =>
    numberLeaves({
      ...extra,
      ...Object.fromEntries(Object.entries(fields).filter(([, field]) => field !== undefined)),
    }),
  )

/** A copy in which each leaf is a text of its own. */
function numberLeaves(source: object): Record<string, unknown> {
  let count = 0
  const copy = (item: unknown): unknown => {
    if (item === 'leaf') return `leaf-${count++};`
    if (typeof item !== 'object' || item === null) return item
    return Object.fromEntries(Object.entries(item).map(([name, member]) => [name, copy(member)]))
  }
  return copy(source) as Record<string, unknown>
}

/** The texts of a message, by their names after flattening. */
function leavesOf(item: unknown, path: string): [path: string, text: string][] {
  if (typeof item === 'string') return item.startsWith('leaf-') ? [[path, item]] : []
  if (typeof item !== 'object' || item === null) return []
  return Object.entries(item).flatMap(([name, member]) => leavesOf(member, path === '' ? name : `${path}.${name}`))
}

/** Whether members of one object have the same name after flattening. The last of them wins, as in any event. */
function repeatsName(item: unknown): boolean {
  const paths = leavesOf(item, '').map(([path]) => path)
  return new Set(paths).size < paths.length
}

test('no text of a message is lost, but the address of the visitor, whatever the fields are called', () => {
  let accepted = 0
  fc.assert(
    fc.property(message, (sent) => {
      // If an object has equal names, the last one wins, as documented for every event.
      fc.pre(![sent, sent.properties, sent.traits, sent.context].some(repeatsName))
      try {
        const { event } = mapMessage(sent, 'shop')
        const { line } = encodeEvent(event, { receivedAt, environment: 'prod' })
        const lost = leavesOf(sent, '').filter(([path, text]) => !isDropped(path, sent) && !line.includes(text))
        accepted++
        expect(lost).toStrictEqual([])
      } catch (error) {
        // A text where an object belongs, or a track without a name.
        if (!(error instanceof AppError) || error.code !== 'invalid_field') {
          if (!(error instanceof AppError) || error.code !== 'missing_field') throw error
        }
      }
    }),
    { numRuns: 5_000 },
  )
  expect(accepted).toBeGreaterThan(1_000)
})

function isDropped(path: string, { context }: Record<string, unknown>): boolean {
  return (
    (path === 'context.ip' || path.startsWith('context.ip.')) &&
    typeof context === 'object' &&
    context !== null &&
    'ip' in context
  )
}

test('any JSON is mapped or refused with a 400', () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.dictionary(
        fc.constantFrom(
          'type',
          'event',
          'messageId',
          'userId',
          'timestamp',
          'properties',
          'traits',
          'context',
          'integrations',
        ),
        fc.oneof(fc.jsonValue(), fc.constantFrom(...messageTypes)),
      ),
      (any, fields) => {
        for (const sent of [any, fields, { type: 'track', event: 'x', ...fields }]) {
          try {
            const { event } = mapMessage(sent, 'shop')
            encodeEvent(event, { receivedAt, environment: 'prod' })
          } catch (error) {
            if (!(error instanceof AppError)) throw error
            expect(['invalid_field', 'missing_field', 'invalid_format']).toContain(error.code)
          }
        }
      },
    ),
    { numRuns: 2_000 },
  )
})
