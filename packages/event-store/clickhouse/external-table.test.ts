import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { expect, test } from '@jest/globals'
import { testClickHouse } from '../../../tests/support/engines/test-engines.ts'
import { parseClickHouseUrl } from './client.ts'
import { externalTableClient } from './external-table.ts'

test.each([
  undefined,
  '{}',
  'null',
  '{"written_rows":',
  'null and void',
  '{"read_rows":"1"}',
  '{"written_rows":"many","read_rows":"1"}',
])('a response with the summary %s is a retryable failure', async (summary) => {
  // A proxy in front of ClickHouse may send such a response.
  const server = createServer((incoming, outgoing) => {
    incoming.resume()
    if (summary !== undefined) outgoing.setHeader('X-ClickHouse-Summary', summary)
    outgoing.end('Ok.')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = externalTableClient({ origin, username: 'a', password: 'b', database: 'c' })
  const query = { sql: 'SELECT 1', structure: 'a String', payloads: [], settings: {}, timeoutMs: 5_000 }
  await expect(client.post(query)).rejects.toMatchObject({ retryable: true, serverCode: undefined })
  client.close()
  await new Promise((resolve) => server.close(resolve))
})

test.each([
  [true, { retryable: false, isBadData: true }],
  [false, { retryable: true, isBadData: false }],
])(
  'that not all data can be read is the fault of rows that may be bad (%j), else a full disk',
  async (mayHaveBadRows, fault) => {
    const server = createServer((incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(500, { 'X-ClickHouse-Exception-Code': '33' })
      outgoing.end('Code: 33. DB::Exception: Cannot read all data. (CANNOT_READ_ALL_DATA)')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const client = externalTableClient({ origin, username: 'a', password: 'b', database: 'c' }, { mayHaveBadRows })
    const query = { sql: 'SELECT 1', structure: 'a String', payloads: [], settings: {}, timeoutMs: 5_000 }
    await expect(client.post(query)).rejects.toMatchObject({ serverCode: 33, ...fault })
    client.close()
    await new Promise((resolve) => server.close(resolve))
  },
)

test('an idle connection is ended by the client, before ClickHouse ends it', async () => {
  const server = createServer({ keepAliveTimeout: 30_000 }, (incoming, outgoing) => {
    incoming.resume()
    outgoing.setHeader('X-ClickHouse-Summary', '{"written_rows":"0","read_rows":"0"}')
    outgoing.end()
  })
  const ended = once(server, 'connection').then(([socket]) => once(socket as Socket, 'end'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = externalTableClient({ origin, username: 'a', password: 'b', database: 'c' })
  await client.post({ sql: 'SELECT 1', structure: 'a String', payloads: [], settings: {}, timeoutMs: 5_000 })
  await ended
  client.close()
  await new Promise((resolve) => server.close(resolve))
})

test('a statement that takes longer than its time fails with the code of ClickHouse, which says that fewer rows may succeed', async () => {
  const client = externalTableClient({ ...parseClickHouseUrl(testClickHouse().url), database: 'default' })
  const query = {
    sql: 'SELECT sleepEachRow(1) FROM b',
    structure: 'a UInt8',
    payloads: [Buffer.from('{"a":1}\n{"a":2}\n')],
    settings: {},
    timeoutMs: 1_000,
  }
  await expect(client.post(query)).rejects.toMatchObject({ serverCode: 159, isTooLarge: true })
  client.close()
})
