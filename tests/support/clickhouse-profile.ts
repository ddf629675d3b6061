import { randomUUID } from 'node:crypto'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ClickHouseAddress } from '@sluice/event-store/clickhouse/client'

/** A ClickHouse whose user has further settings, as from a settings profile. */
export interface ProfiledClickHouse {
  address: ClickHouseAddress
  close(): Promise<void>
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/**
 * Forwards statements to a real ClickHouse, in a session with these settings. Settings of a statement take precedence
 * over them, as over those of a profile; `forced` takes precedence over settings of a statement. Runs one statement at
 * a time.
 */
export async function withProfile(
  address: ClickHouseAddress,
  settings: Readonly<Record<string, string | number>>,
  forced: Readonly<Record<string, string>> = {},
): Promise<ProfiledClickHouse> {
  const session = { session_id: randomUUID(), session_timeout: '600' }
  const set = Object.entries(settings).map(
    ([name, value]) => `${name} = ${typeof value === 'number' ? value : quoted(value)}`,
  )
  const authorization = `Basic ${Buffer.from(`${address.username}:${address.password}`).toString('base64')}`
  if (set.length > 0) {
    const url = `${address.origin}/?${new URLSearchParams(session).toString()}`
    const answer = await fetch(url, {
      method: 'POST',
      body: `SET ${set.join(', ')}`,
      headers: { Authorization: authorization },
    })
    if (!answer.ok) throw new Error(await answer.text())
  }

  const server = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url ?? '/', address.origin)
    for (const [name, value] of Object.entries({ ...session, ...forced })) url.searchParams.set(name, value)
    const call = request(url, { method: incoming.method ?? 'POST', headers: incoming.headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(outgoing)
    })
    call.on('error', () => outgoing.destroy())
    incoming.pipe(call)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: { ...address, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
