import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
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

  const startExpress = async () => {
    const port = await findFreePort()
    const program = fileURLToPath(new URL('../../docs/sdk/examples/express/server.ts', import.meta.url))
    const { PATH } = process.env
    const env = {
      PATH,
      // Express prints no error of a request that a test breaks off.
      NODE_ENV: 'test',
      SLUICE_URL: rig.gateway.service.url,
      SLUICE_KEY: rig.gateway.keys.prod,
      PORT: String(port),
    }
    const server = spawn(process.execPath, [program], { env, stdio: ['ignore', 'inherit', 'inherit'] })
    return { server, port, url: `http://127.0.0.1:${port}/orders` }
  }

  test('express: an order of the server joins the visit of the page, and is one event with the copy of the page', async () => {
    const { server, url } = await startExpress()
    try {
      const exited = new Promise((resolve) => server.once('exit', resolve))
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

  /** An order whose body is not sent yet, once the server has its head: its connection is not idle. */
  const beginOrder = async (url: string, agent: Agent) => {
    const headers = { 'Content-Type': 'application/json', Expect: '100-continue' }
    const order = request(url, { method: 'POST', agent, headers })
    order.flushHeaders()
    await once(order, 'continue')
    return order
  }

  const answers = (port: number) =>
    fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )

  test('express: SIGTERM ends the server although a proxy keeps a connection busy, and its last order is stored', async () => {
    const { server, port, url } = await startExpress()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    try {
      const exited = once(server, 'exit')
      await waitUntil(() => answers(port), 'the server answers')
      const receipts: Receipt[] = []
      let order: ClientRequest | undefined = await beginOrder(url, agent)
      server.kill('SIGTERM')
      await waitUntil(async () => !(await answers(port)), 'the server has stopped listening')
      while (order && receipts.length < 100) {
        const [response] = (await once(order.end('{"total":21.5}'), 'response')) as [IncomingMessage]
        receipts.push(((await json(response)) as { receipt: Receipt }).receipt)
        order = await beginOrder(url, agent).catch(() => undefined)
      }
      // The answer to the first order had begun before the signal: the answer to the second one closes the connection.
      expect(receipts).toHaveLength(2)
      expect(await exited).toEqual([0, null])
      await waitUntil(async () => (await orders(21.5)).length >= receipts.length, 'the orders are stored')
      expect((await orders(21.5)).map(({ event_id }) => event_id).sort()).toEqual(
        receipts.map(({ event_id }) => event_id).sort(),
      )
    } finally {
      agent.destroy()
      server.kill('SIGKILL')
    }
  })

  test('express: SIGINT ends the server although a request never ends', async () => {
    const { server, port, url } = await startExpress()
    const agent = new Agent()
    try {
      const exited = once(server, 'exit')
      await waitUntil(() => answers(port), 'the server answers')
      const order = await beginOrder(url, agent)
      order.once('error', () => undefined)
      server.kill('SIGINT')
      expect(await exited).toEqual([0, null])
    } finally {
      agent.destroy()
      server.kill('SIGKILL')
    }
  })
})
