import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import type { Receipt } from '@sluice/node'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../support/free-port.ts'
import { useStoringGateway } from '../support/storing-gateway.ts'

const baggage = 'sluice.session_id=session-1,sluice.anonymous_id=anonymous-1'

describe('the examples of the Node SDK', () => {
  const rig = useStoringGateway()

  const orders = async (total: number) => {
    const sql = `SELECT event_id, session_id, anonymous_id FROM events
      WHERE event_type = 'purchase' AND properties['total'] = {total:String}`
    return (await rig.stores.clickHouse.query<Record<string, string>>(sql, { total: String(total) })).rows
  }

  /** What the browser SDK sends after the response, and a marker behind it in the same partition. */
  async function sendPageCopy(total: number, { event_id, timestamp }: Receipt): Promise<void> {
    const copy = {
      site_id: 'shop',
      event_type: 'purchase',
      event_id,
      timestamp,
      session_id: 'session-1',
      properties: { total },
    }
    const { status } = await rig.gateway.collect(JSON.stringify(copy), { headers: { 'Content-Type': 'text/plain' } })
    expect(status).toBe(202)
    const later = { ...copy, event_type: 'marker', timestamp: timestamp + 1, properties: { total } }
    expect((await rig.gateway.collect(later)).status).toBe(202)
    await waitUntil(async () => {
      const sql = "SELECT count() AS found FROM events WHERE event_type = 'marker' AND event_id = {id:String}"
      return (await rig.stores.clickHouse.query<{ found: number }>(sql, { id: event_id })).rows[0]?.found === 1
    }, 'what came before the marker is stored')
  }

  test('express: an order of the server joins the visit of the page, and is one event with the copy of the page', async () => {
    const port = await findFreePort()
    const program = fileURLToPath(new URL('../../docs/sdk/examples/express/server.ts', import.meta.url))
    const { PATH } = process.env
    const env = {
      PATH,
      SLUICE_URL: rig.gateway.service.url,
      SLUICE_KEY: rig.gateway.keys.prod,
      PORT: String(port),
    }
    const server = spawn(process.execPath, [program], { env, stdio: ['ignore', 'inherit', 'inherit'] })
    try {
      const exited = new Promise((resolve) => server.once('exit', resolve))
      const url = `http://127.0.0.1:${port}/orders`
      const headers = { 'Content-Type': 'application/json', baggage }
      let answer: { receipt: Receipt } | undefined
      await waitUntil(async () => {
        const response = await fetch(url, { method: 'POST', headers, body: '{"total":12.5}' }).catch(() => undefined)
        answer = (await response?.json()) as typeof answer
        return answer !== undefined
      }, 'the server answers')
      if (!answer) throw new Error('no answer')
      server.kill('SIGTERM')
      expect(await exited).toBe(0)
      await sendPageCopy(12.5, answer.receipt)
      const visit = { session_id: 'session-1', anonymous_id: 'anonymous-1' }
      expect(await orders(12.5)).toEqual([{ event_id: answer.receipt.event_id, ...visit }])
    } finally {
      server.kill('SIGKILL')
    }
  })
})
