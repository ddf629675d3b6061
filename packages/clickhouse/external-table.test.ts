import { expect, test } from '@jest/globals'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { externalTablePoster } from './external-table.ts'

test.each(['{"written_rows":', 'null and void', '{"written_rows":"many"}'])(
  'an answer with the summary %s is none: it may be tried again',
  async (summary) => {
    // No ClickHouse answers so; what stands in front of one may.
    const server = createServer((incoming, outgoing) => {
      incoming.resume()
      outgoing.setHeader('X-ClickHouse-Summary', summary).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const poster = externalTablePoster({ origin, username: 'a', password: 'b', database: 'c' })
    const query = { sql: 'SELECT 1', structure: 'a String', payloads: [], parameters: {}, timeoutMs: 5_000 }
    await expect(poster.post(query)).rejects.toMatchObject({ retryable: true, code: undefined })
    poster.close()
    await new Promise((resolve) => server.close(resolve))
  },
)
