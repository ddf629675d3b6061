import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { type ClickHouse, openClickHouse } from '@sluice/event-store/clickhouse/client'
import { keyHashSql } from '@sluice/event-store/reshard/key-hash-sql'
import { keyHash } from '@sluice/events/key-hash'
import { testClickHouse } from '../support/engines/test-engines.ts'

let clickHouse: ClickHouse

beforeAll(() => {
  const url = new URL(testClickHouse().url)
  url.pathname = '/default'
  clickHouse = openClickHouse(url.href)
})

afterAll(async () => {
  await clickHouse.close()
})

async function hashesInClickHouse(pairs: readonly (readonly [string, string])[]): Promise<number[]> {
  const { rows } = await clickHouse.query<{ hash: number }>(
    `SELECT ${keyHashSql('site_id', 'event_id')} AS hash
     FROM (SELECT arrayJoin(arrayZip(range(length({sites:Array(String)})), {sites:Array(String)}, {ids:Array(String)})) AS pair,
       pair.1 AS place, pair.2 AS site_id, pair.3 AS event_id) ORDER BY place`,
    { sites: pairs.map(([site]) => site), ids: pairs.map(([, id]) => id) },
  )
  return rows.map(({ hash }) => hash)
}

const text = fc.oneof(
  // Stored texts are well-formed and have no NUL (packages/events/json-text.ts).
  fc.string({ unit: 'binary', maxLength: 64 }).map((any) => any.toWellFormed().replaceAll('\0', '')),
  fc.string({ unit: 'grapheme', maxLength: 64 }),
  fc.uuid(),
  fc.constantFrom(
    '',
    '\u007f\u0080',
    '\u07ff\u0800',
    '\ud7ff\ue000',
    '\uffff',
    '\u{10000}\u{10ffff}',
    '😀'.repeat(200),
  ),
)

test('ClickHouse computes the hash that decides on the shard as the gateway does, for any text', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 200 }), async (pairs) =>
      expect(await hashesInClickHouse(pairs)).toStrictEqual(pairs.map(([site, id]) => keyHash(site, id))),
    ),
    { numRuns: 50 },
  )
}, 120_000)
